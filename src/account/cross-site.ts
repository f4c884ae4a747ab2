// Whether a request that a cookie vouches for was made by another site's page. Pure: what the browser says in, yes or no out.

const SAFE_METHODS = new Set(['GET', 'HEAD']);
/** `none`: the user typed the address. `same-site` isn't enough: that is any port and any neighbour of the domain. */
const OWN = new Set(['same-origin', 'none']);

export interface Asked {
  readonly method: string;
  readonly headers: ReadonlyMap<string, string>;
}

/**
 * `Sec-Fetch-Site` decides where it is sent, otherwise `Origin`, which must be that of `baseUrl` or name the host that was asked.
 * With neither the request isn't a browser's: every browser that knows SameSite, which our cookies have, sends Origin with unsafe methods.
 */
export function isCrossSite({ method, headers }: Asked, baseUrl: string | null): boolean {
  if (SAFE_METHODS.has(method)) return false;
  const site = headers.get('sec-fetch-site');
  if (site !== undefined) return !OWN.has(site.toLowerCase());
  const origin = headers.get('origin');
  if (origin === undefined) return false;
  if (!URL.canParse(origin)) return true;
  const { host, origin: canonical } = new URL(origin);
  if (baseUrl !== null && new URL(baseUrl).origin === canonical) return false;
  return host === '' || host !== hostOf(headers.get('host') ?? '', origin);
}

/** As the URL parser spells it: lower case, without the scheme's own port. */
function hostOf(header: string, origin: string): string | null {
  const url = `${origin.startsWith('https:') ? 'https' : 'http'}://${header}`;
  return URL.canParse(url) ? new URL(url).host : null;
}
