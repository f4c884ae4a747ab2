// The header block of one part: what names a file as clients send it, and what no two readers agree about.
import t from 'tap';
import { MalformedMultipart, parsePartHeaders } from '../../../src/scan/http/multipart-parser.js';

function filenameOf(parameters: string): string | null {
  return parsePartHeaders(`Content-Disposition: form-data; name="file"; ${parameters}`).filename;
}

const filenames: [string, string | null][] = [
  ['filename="a.txt"', 'a.txt'],
  ['filename=a.txt', 'a.txt'],
  ['FileName="a.txt"', 'a.txt'],
  ['filename=""', ''],
  ['filename=', ''],
  ['other="a.txt"', null],
  ['filename="a.txt";', 'a.txt'],
  ['filename="a;b.txt"', 'a;b.txt'],
  ['filename="naïve 😀.txt"', 'naïve 😀.txt'],
  // Browsers escape these three and nothing else.
  ['filename="a%22b%0D%0a.txt"', 'a"b\r\n.txt'],
  ['filename="100%25.txt"', '100%25.txt'],
  ['filename="a\\"b\\\\c.txt"', 'a"b\\c.txt'],
  ['filename="C:\\dir\\a.txt"', 'C:\\dir\\a.txt'],
  // A name that ends in a backslash, as browsers and curl send it.
  ['filename="a\\"', 'a\\'],
  ['filename="C:\\dir\\" ; x=y', 'C:\\dir\\'],
  ['filename="a\\"; filename*=UTF-8\'\'b%5C', 'b\\'],
  ['filename="a\\"; b"', 'a"; b'],
  // RFC 8187 wins, wherever it stands.
  ['filename="plain.txt"; filename*=UTF-8\'\'na%C3%AFve.txt', 'naïve.txt'],
  ["filename*=utf-8'en'%e2%82%ac.txt; filename=plain.txt", '€.txt'],
  ["filename*=ISO-8859-1''na%EFve.txt", 'naïve.txt'],
  ["filename*=UTF-8''%2e%2e%2fa.txt", '../a.txt'],
  // Not encoded where it should be.
  ["filename*=UTF-8''naïve-€-%E2%82%AC.txt", 'naïve-€-€.txt'],
  ["filename*=UTF-8''100%.txt", '100%.txt'],
  // Nobody has to know other character sets, nor a value without one.
  ['filename="plain.txt"; filename*=KOI8-R\'\'%C1.txt', 'plain.txt'],
  ["filename*=KOI8-R''%C1.txt", null],
  ['filename="plain.txt"; filename*=a.txt', 'plain.txt'],
];
for (const [parameters, filename] of filenames) t.equal(filenameOf(parameters), filename, parameters);

t.test('bytes that are no UTF-8 become replacement characters', async (t) => {
  const block = Buffer.from('Content-Disposition: form-data; name="file"; filename="a\xff.txt"', 'latin1');
  t.equal(parsePartHeaders(block.toString()).filename, 'a\ufffd.txt');
  t.equal(filenameOf("filename*=UTF-8''a%FF.txt"), 'a\ufffd.txt');
});

const DISPOSITION = 'Content-Disposition: form-data; name="file"; filename="a"';
const refused: [string, string][] = [
  ['', 'a part has an invalid header line'],
  ['Content-Type: text/plain', 'a part has no Content-Disposition header'],
  [`${DISPOSITION}\r\ncontent-disposition: form-data; name="b"`, 'a part has two Content-Disposition headers'],
  [`${DISPOSITION}\r\nno colon`, 'a part has an invalid header line'],
  [`${DISPOSITION}\r\n folded: yes`, 'a part has an invalid header line'],
  [`${DISPOSITION}\r\nX Y: z`, 'a part has an invalid header line'],
  [`${DISPOSITION}\r\nX : z`, 'a part has an invalid header line'],
  [`${DISPOSITION}\r\nX: a\nb`, 'a part has an invalid header line'],
  [`${DISPOSITION}\r\nX: a\rb`, 'a part has an invalid header line'],
  ...['base64', 'quoted-printable', 'x-uuencode', '', '7bit, base64', 'binary (really)'].map(
    (encoding): [string, string] => [
      `${DISPOSITION}\r\nContent-Transfer-Encoding: ${encoding}`,
      'the Content-Transfer-Encoding of a part is not 7bit, 8bit or binary',
    ],
  ),
  [
    `${DISPOSITION}\r\nContent-Transfer-Encoding: binary\r\ncontent-transfer-encoding: Base64`,
    'the Content-Transfer-Encoding of a part is not 7bit, 8bit or binary',
  ],
  ...['gzip', 'br', 'identity', ''].map((encoding): [string, string] => [
    `CONTENT-ENCODING: ${encoding}\r\n${DISPOSITION}`,
    'a part has a Content-Encoding',
  ]),
  [`${DISPOSITION}\r\nContent-Range: bytes 0-9/20`, 'a part has a Content-Range'],
  [`${DISPOSITION}\r\nContent-Type: Multipart/Mixed;charset=x ; Boundary=b`, 'a part is a multipart body of its own'],
  [`${DISPOSITION}; name="other"`, 'a part has two name parameters'],
  [`${DISPOSITION}; FILENAME="b"`, 'a part has two filename parameters'],
  [`${DISPOSITION}.exe`, 'a part has an invalid Content-Disposition'],
  [`${DISPOSITION};;`, 'a part has an invalid Content-Disposition'],
  [`${DISPOSITION} filename*=x`, 'a part has an invalid Content-Disposition'],
  ['Content-Disposition: form-data; filename="a"', 'a part has no name'],
  ['Content-Disposition: form-data', 'a part has no name'],
  ['Content-Disposition: attachment; name="file"; filename="a"', 'a part is not form-data'],
  ['Content-Disposition: form-data; name="file', 'a part has an invalid Content-Disposition'],
  ['Content-Disposition: form-data; name="file"; filename="a\\"b', 'a part has an invalid Content-Disposition'],
  ['Content-Disposition: form-data; name="file"; filename="a\\"; name="b', 'a part has an invalid Content-Disposition'],
];
for (const [block, reason] of refused) {
  t.throws(() => parsePartHeaders(block), new MalformedMultipart(reason), JSON.stringify(block));
}

t.test('what leaves the bytes as they are is taken', async (t) => {
  for (const header of [
    'Content-Transfer-Encoding: BINARY',
    'content-transfer-encoding:8bit \t',
    'Content-Transfer-Encoding: 7Bit',
    'Content-Type: text/plain; charset=utf-16',
    // What browsers say of a page that was saved as one file: it is not a way to send several.
    'Content-Type: multipart/related',
    'Content-Length: 5',
  ]) {
    t.strictSame(parsePartHeaders(`${DISPOSITION}\r\n${header}`), { name: 'file', filename: 'a' }, header);
  }
});

t.test('other headers are read over, by any name that is one', async (t) => {
  const block = `X-!#$%&'*+.^_\`|~: \t v\r\nContent-Type: a/b\r\nCONTENT-DISPOSITION:form-data;name=file;filename=a`;
  t.strictSame(parsePartHeaders(block), { name: 'file', filename: 'a' });
  t.strictSame(parsePartHeaders('Content-Disposition: Form-Data; name="__proto__"'), {
    name: '__proto__',
    filename: null,
  });
});

t.test('a hostile line is decided: an expression that backtracks would not come to an end', async (t) => {
  const count = 16 * 1024;
  const hostile: [string, string | null | 'refused'][] = [
    [`filename="${'\\'.repeat(count)}`, 'refused'],
    [`filename="${'\\"'.repeat(count / 2)}`, 'refused'],
    [`${'; '.repeat(count / 2)}x`, 'refused'],
    [`a=b${' '.repeat(count)}x`, 'refused'],
    [`filename*=${"'".repeat(count)}`, null],
    [`filename*=UTF-8''${'%'.repeat(count)}`, '%'.repeat(count)],
  ];
  for (const [parameters, expected] of hostile) {
    let decided: string | null;
    try {
      decided = filenameOf(parameters);
    } catch (error) {
      if (!(error instanceof MalformedMultipart)) throw error;
      decided = 'refused';
    }
    t.equal(decided, expected, parameters.slice(0, 20));
  }
});
