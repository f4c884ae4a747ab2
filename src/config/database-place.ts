// What DATABASE_URL says: a host, or the folder of a UNIX socket as libpq takes it.
import { parseUrl } from '../wire-text.js';

export interface DatabasePlace {
  /** As the driver reads it. */
  readonly url: string;
  /** For messages: what the driver says of a URL would quote it whole. */
  readonly place: string;
  /** Of a UNIX socket: its folder. */
  readonly socket: { readonly host: string; readonly port: number } | null;
  /** Why it can't be read, behind the name of the variable; null: it can. */
  readonly problem: string | null;
}

export function databasePlaceOf(text: string): DatabasePlace {
  const { url, folder } = withoutSocket(text);
  const parsed = parseUrl(url);
  const nowhere = { url, place: '', socket: null };
  if (parsed === null) return { ...nowhere, problem: 'is not a valid URL' };
  const { hostname, port, pathname, search, hash, username, password } = parsed;
  if ([username, password, hostname, pathname].some((part) => decoded(part) === null)) {
    return { ...nowhere, problem: 'has a % that is not percent-encoded: write it as %25' };
  }
  // `postgres://user:12/34@host/`: read by the letter, the password is a port and a path, and would be shown as such.
  if (`${pathname}${search}${hash}`.includes('@')) {
    return {
      ...nowhere,
      problem: 'has a user or a password with one of / ? # in it: write them as %2F %3F %23',
    };
  }
  const place = `Postgres at ${folder ?? hostname}:${port === '' ? '5432' : port}${pathname}`;
  const socket = folder === null ? null : { host: folder, port: port === '' ? 5432 : Number(port) };
  return { url, place, socket, problem: null };
}

/** RFC 3986 as libpq reads it, which takes an empty host beside a user, and a folder as host. */
const AUTHORITY = /^(postgres(?:ql)?:\/\/)([^/?#@]*@)?([^/?#@:]*)(:\d+)?(\/[^?#]*)?(\?[^#]*)?$/;

/**
 * The folder of a UNIX socket, which libpq takes as a host (`%2Frun%2Fpostgresql`) or as the parameter `host` behind an empty one, and the
 * same URL with an ordinary host, which the driver can read. Null: it names no folder.
 */
function withoutSocket(text: string): { readonly url: string; readonly folder: string | null } {
  const [, scheme = '', login = '', host = '', port = '', path = '', search = ''] = AUTHORITY.exec(text) ?? [];
  const asked = new URLSearchParams(search);
  const folder = host === '' ? asked.get('host') : decoded(host);
  if (folder === null || !folder.startsWith('/')) return { url: text, folder: null };
  const number = asked.get('port');
  asked.delete('host');
  asked.delete('port');
  const rest = asked.size === 0 ? '' : `?${asked}`;
  return { url: `${scheme}${login}localhost${number === null ? port : `:${number}`}${path}${rest}`, folder };
}

function decoded(host: string): string | null {
  try {
    return decodeURIComponent(host);
  } catch {
    // Not percent-encoded text: no folder has such a name.
    return null;
  }
}
