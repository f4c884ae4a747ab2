// Names as they are shown: base names of hostile filenames, and extensions.
import fc from 'fast-check';
import t from 'tap';
import { baseName, extensionOf, nameFromUrl } from '../src/filename.js';
import { anyCharacter } from './fixtures/any-character.js';
import { holds } from './fixtures/holds.js';

/** As a test's name: no line ends of any kind, no half characters. */
function inAscii(name: string): string {
  return JSON.stringify(name)
    .replace(/[^\x20-\x7e]/gu, '?')
    .slice(0, 50);
}

const names: [string, string | null][] = [
  ['a.txt', 'a.txt'],
  ['/etc/passwd', 'passwd'],
  ['C:\\Windows\\a.exe', 'a.exe'],
  ['mixed\\and/slashes', 'slashes'],
  ['..', null],
  ['a/..', null],
  ['.', null],
  ['', null],
  ['   ', null],
  ['dir/', null],
  ['a\\', 'a'],
  ['C:\\dir\\\\', 'dir'],
  ['dir/\\', null],
  ['\\', null],
  ['\u0000\u0007', null],
  ['a\u0000b\r\nc\u007f\u0085.txt', 'abc.txt'],
  [' leading.txt', ' leading.txt'],
  ['\u202efdp.exe', '\u202efdp.exe'],
  ['😀'.repeat(256), '😀'.repeat(255)],
  ['x'.repeat(300), 'x'.repeat(255)],
  [`${'x'.repeat(254)}😀😀`, `${'x'.repeat(254)}😀`],
  // Cutting must not leave what would have been refused.
  [`${' '.repeat(255)}a`, null],
  [`${' '.repeat(255)}a.txt`, `${' '.repeat(251)}.txt`],
  // The extension stays, unless it is none.
  [`${'x'.repeat(300)}.tar.gz`, `${'x'.repeat(252)}.gz`],
  [`${'😀'.repeat(300)}.pdf`, `${'😀'.repeat(251)}.pdf`],
  [`${'x'.repeat(300)}.${'y'.repeat(31)}`, `${'x'.repeat(223)}.${'y'.repeat(31)}`],
  [`${'x'.repeat(300)}.${'y'.repeat(32)}`, 'x'.repeat(255)],
  [`.${'x'.repeat(300)}`, `.${'x'.repeat(254)}`],
  ['\u0000'.repeat(300).concat('a.txt'), 'a.txt'],
  ['a\u0000/\u0000..\u0000', null],
  ['\u00a0\u2003\ufeff', null],
  ['...', '...'],
  ['/', null],
  ['\\\\server\\share\\a.doc', 'a.doc'],
  ['../../a', 'a'],
  ['%2e%2e%2fa', '%2e%2e%2fa'],
  ['a\u2028b', 'a\u2028b'],
  ['CON', 'CON'],
];
for (const [sent, shown] of names) t.equal(baseName(sent), shown, inAscii(sent));

const extensions: [string, string][] = [
  ['a.txt', 'txt'],
  ['a.TXT', 'TXT'],
  ['a.tar.gz', 'gz'],
  ['README', ''],
  ['.htaccess', ''],
  ['.config.json', 'json'],
  ['a.', ''],
  ['A.EXE', 'EXE'],
  ['..', ''],
  ['..a', 'a'],
  ['a.b c', 'b c'],
  ['', ''],
  ['😀.😀', '😀'],
  ['/srv/v1.2/README', ''],
  ['/srv/v1.2/.htaccess', ''],
  ['/srv/a.txt', 'txt'],
];
for (const [filename, extension] of extensions) t.equal(extensionOf(filename), extension, filename);

t.test(
  'whatever is sent, a name has neither path nor control characters, and no character is cut in half',
  async () => {
    const pieces = fc.constantFrom('/', '\\', '.', ' ', '\u0000', '\u009f', '\r\n', '😀', 'x'.repeat(100));
    const name = fc
      .array(fc.oneof(pieces, fc.string({ unit: anyCharacter })), { maxLength: 12 })
      .map((all) => all.join(''));
    fc.assert(
      fc.property(name, (sent) => {
        const shown = baseName(sent);
        if (shown === null) return true;
        const { length } = [...shown];
        return !/[/\\\p{Cc}\p{Cs}]/u.test(shown) && length > 0 && length <= 255 && shown.trim() !== '';
      }),
    );
  },
);

t.test('the name of a URL is its last segment that is not empty, decoded; or the host', async (t) => {
  const urls: [string, string][] = [
    ['http://h.example/a/b.txt', 'b.txt'],
    ['http://h.example/a/b.txt?c=d/e.exe#f/g.exe', 'b.txt'],
    ['http://h.example/a/b//', 'b'],
    ['http://h.example', 'h.example'],
    ['http://h.example:8080/?x', 'h.example'],
    ['http://[2001:db8::1]/', '[2001:db8::1]'],
    ['http://B\u00fccher.example/', 'xn--bcher-kva.example'],
    ['http://h.example/a/../b/./', 'b'],
    ['http://h.example/%E2%98%83%20x.txt', '\u2603 x.txt'],
    ['http://h.example/%e2%98.txt', '\ufffd.txt'],
    ['http://h.example/100%.txt', '100%.txt'],
    ['http://h.example/%2', '%2'],
    ['http://h.example/%252e', '%2e'],
    ['http://h.example/a%5Cb%2Fc.txt', 'c.txt'],
    ['http://h.example/a%2F', 'h.example'],
    ['http://h.example/a/%2e%2e', 'h.example'],
    ['http://h.example/%0d%0a%00', 'h.example'],
    [`http://h.example/${'%F0%9F%98%80'.repeat(256)}`, '\u{1f600}'.repeat(255)],
  ];
  for (const [url, name] of urls) t.equal(nameFromUrl(new URL(url)).filename, name, inAscii(url));
  t.strictSame(nameFromUrl(new URL('http://h.example/a/b.tar.gz')), { filename: 'b.tar.gz', extension: 'gz' });
  t.strictSame(nameFromUrl(new URL('http://h.example/h.example')), { filename: 'h.example', extension: 'example' });
  for (const host of ['h.example', '192.0.2.1']) {
    t.strictSame(nameFromUrl(new URL(`http://${host}/`)), { filename: host, extension: '' }, 'a host has none');
  }
});

t.test('whatever the path, the name of a URL is one that baseName would give', async (t) => {
  const character = fc.oneof(fc.constantFrom(...'/.~:@;=&+$,%az09'), anyCharacter.map(encodeURIComponent));
  holds(
    t,
    fc.property(fc.string({ unit: character }), fc.string({ unit: 'grapheme' }), (path, noise) => {
      const url = new URL(`http://h.example/${path}/${encodeURIComponent(noise)}`);
      const name = nameFromUrl(url).filename;
      return baseName(name) === name;
    }),
  );
});
