// What is a URL stays one, and what is none stays none, however often it is asked: Node 20's URL.canParse changes its mind when it is optimised.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { filenameOf } from '../src/icap/exchange.js';
import { parseUrl } from '../src/wire-text.js';

const OFTEN = 100_000;
/** Latin-1 whose bytes are UTF-8 for what may be in a URL. */
const NO_URL = 'http:\u00d6\u0087/';

t.test('the hundred thousandth answer is the first one', async (t) => {
  let wrong = 0;
  for (let count = 0; count < OFTEN; count += 1) {
    if (parseUrl(NO_URL) !== null || parseUrl('http://b\u00fccher.example/')?.hostname !== 'xn--bcher-kva.example')
      wrong += 1;
  }
  t.equal(wrong, 0);
});

t.test(
  'a URL has a thousand characters that are not ASCII at most: of more in a host the parser takes too long',
  async (t) => {
    const characters = (count: number): string =>
      Array.from({ length: count }, (_, at) => String.fromCodePoint(0x4e00 + at)).join('');
    for (const start of ['http://', 'http://a/']) {
      t.ok(parseUrl(start + characters(1024)));
      t.equal(parseUrl(start + characters(1025)), null);
    }
    t.ok(parseUrl(`http://a/${'%e4%b8%80'.repeat(1025)}`));
  },
);

t.test('an address in a header of ICAP that is no URL has no name, however often it comes', async (t) => {
  const request = Buffer.from(`GET ${NO_URL} HTTP/1.1\r\nHost: a\r\n\r\n`, 'latin1');
  const named = Array.from({ length: OFTEN }, () => filenameOf(request, null)).filter((name) => name !== '');
  t.strictSame(named, []);
});

t.test('the service asks nobody else', async (t) => {
  const root = fileURLToPath(new URL('../../src', import.meta.url));
  const paths = readdirSync(root, { recursive: true, encoding: 'utf8' });
  const files = paths.filter((path) => path.endsWith('.ts') && !path.startsWith('dashboard/'));
  t.ok(files.length > 100);
  const asking = files.filter((path) => readFileSync(join(root, path), 'utf8').includes('canParse('));
  t.strictSame(asking, []);
});
