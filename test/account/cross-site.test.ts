// Which requests another site's page may have made, by what browsers say of them.
import t from 'tap';
import { isCrossSite } from '../../src/account/authenticate.js';

function asked(headers: Record<string, string>, method = 'POST') {
  return { method, headers: new Map(Object.entries({ host: 'sluice.example.org', ...headers })) };
}

t.test('an unsafe request is ours when its origin names the host that was asked, or BASE_URL', async (t) => {
  const own: [Record<string, string>, string | null][] = [
    [{}, null],
    [{ origin: 'https://sluice.example.org' }, null],
    [{ origin: 'http://sluice.example.org' }, null],
    [{ origin: 'https://sluice.example.org', host: 'SLUICE.example.org:443' }, null],
    [{ origin: 'http://sluice.example.org', host: 'sluice.example.org:80' }, null],
    [{ origin: 'http://[::1]:8080', host: '[0::1]:8080' }, null],
    [{ origin: 'https://public.example.org', host: 'internal:8080' }, 'https://public.example.org/'],
    [{ 'sec-fetch-site': 'same-origin', origin: 'https://public.example.org' }, null],
    [{ 'sec-fetch-site': 'none' }, null],
  ];
  for (const [headers, baseUrl] of own) t.equal(isCrossSite(asked(headers), baseUrl), false, JSON.stringify(headers));
});

t.test('and otherwise it is not', async (t) => {
  const foreign: [Record<string, string>, string | null][] = [
    [{ origin: 'https://evil.example' }, null],
    [{ origin: 'null' }, null],
    [{ origin: '' }, null],
    [{ origin: 'file://' }, null],
    [{ origin: 'data:,', host: '' }, null],
    [{ origin: 'https://sluice.example.org.evil.example' }, null],
    [{ origin: 'https://evil.example/sluice.example.org' }, 'https://sluice.example.org'],
    [{ origin: 'https://sub.sluice.example.org' }, 'https://sluice.example.org'],
    [{ origin: 'https://sluice.example.org:8443' }, null],
    [{ origin: 'http://public.example.org', host: 'internal' }, 'https://public.example.org'],
    [{ 'sec-fetch-site': 'same-site' }, null],
    [{ 'sec-fetch-site': 'cross-site', origin: 'https://sluice.example.org' }, null],
    [{ 'sec-fetch-site': '' }, null],
    // Of two lines.
    [{ 'sec-fetch-site': 'same-origin, cross-site' }, null],
    [{ origin: 'https://sluice.example.org, https://evil.example' }, null],
  ];
  for (const [headers, baseUrl] of foreign) {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'get']) {
      t.equal(isCrossSite(asked(headers, method), baseUrl), true, `${method} ${JSON.stringify(headers)}`);
    }
    for (const method of ['GET', 'HEAD']) t.equal(isCrossSite(asked(headers, method), baseUrl), false, method);
  }
});
