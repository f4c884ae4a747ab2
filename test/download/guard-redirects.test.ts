// Redirects: where they lead, and that they are judged as any URL.
import fc from 'fast-check';
import t from 'tap';
import { createGuard } from '../../src/download/guard.js';
import { holds } from '../fixtures/holds.js';
import { ADDRESS, CHARACTER, CREDENTIALS, HOST, MALFORMED, PORT, SCHEME } from './guard-reasons.js';

const guard = createGuard({ allowNetworks: [] });
const base = new URL('https://example.com:8443/a/b?c');

t.test('redirects lead where the URL standard says, and their text is judged before', async (t) => {
  const targets: [string, string][] = [
    ['d', 'https://example.com:8443/a/d'],
    ['/d', 'https://example.com:8443/d'],
    ['../../d', 'https://example.com:8443/d'],
    ['?d', 'https://example.com:8443/a/b?d'],
    ['#d', 'https://example.com:8443/a/b?c#d'],
    ['//other.example/d', 'https://other.example/d'],
    ['http://other.example/d', 'http://other.example/d'],
    ['HTTP://OTHER.example', 'http://other.example/'],
  ];
  for (const [location, expected] of targets) {
    const checked = guard.checkRedirect(location, base);
    t.equal(checked.allowed && checked.url.href, expected, location);
  }
  const wrong: [string, string][] = [
    ['https:d', MALFORMED],
    ['https:/d', MALFORMED],
    ['https:///d', MALFORMED],
    ['///d', MALFORMED],
    ['////d', MALFORMED],
    ['//', MALFORMED],
    ['//user@other.example/', CREDENTIALS],
    ['//127.0.0.1/', ADDRESS],
    ['//localhost/', HOST],
    ['//other.example:22/', PORT],
    ['mailto:a@b.example', SCHEME],
    ['/\\other.example', CHARACTER],
    ['\\\\other.example', CHARACTER],
    ['/a b', CHARACTER],
    ['\t//127.0.0.1/', CHARACTER],
    ['/a\u0085', CHARACTER],
  ];
  for (const [location, reason] of wrong) {
    t.match(guard.checkRedirect(location, base), { allowed: false, reason }, JSON.stringify(location));
  }
});

t.test('a redirect to a whole URL is judged exactly as that URL, wherever it comes from', async (t) => {
  const url = fc.oneof(
    fc.webUrl({ withQueryParameters: true, withFragments: true }),
    fc.ipV4().map((address) => `http://${address}/`),
    fc.ipV6().map((address) => `https://[${address}]/`),
    fc.string().map((text) => `http://${text}`),
    fc.string().map((text) => `https:${text}`),
  );
  holds(
    t,
    fc.property(url, (text) => {
      const direct = guard.checkUrl(text);
      const redirected = guard.checkRedirect(text, base);
      return (
        direct.allowed === redirected.allowed &&
        (direct.allowed || redirected.allowed || direct.reason === redirected.reason)
      );
    }),
  );
});
