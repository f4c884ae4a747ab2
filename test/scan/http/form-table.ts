// Multipart bodies that parsers read differently, and what Sluice makes of each, beside those of multipart.test.ts.
// Cases known from the tests of busboy, python-multipart, defnull/multipart, multiparty, formidable, werkzeug, Commons FileUpload and Go; RFC 2046, RFC 7578.
import { createHash } from 'node:crypto';
import { eicar } from '../../fixtures/samples.js';
import type { FormReading } from './form-reader.js';

export type FormCase = readonly [
  name: string,
  /** Latin-1: a character for each byte. */
  body: string,
  expected: FormReading,
  /** Default: that of forms with the boundary ----Boundary. */
  contentType?: string,
];

const EVERY_BYTE = String.fromCharCode(...Array.from({ length: 256 }, (_, byte) => byte));
const EICAR = eicar().toString('latin1');
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const TEXT = 'text/plain';
const OCTETS = 'application/octet-stream';

/** What stands behind a boundary: headers, an empty line and the content. */
const raw = (headers: string, content: string): string => `\r\n${headers}\r\n\r\n${content}\r\n`;

function part(parameters: string, content: string, type?: string): string {
  const disposition = `Content-Disposition: form-data; ${parameters}`;
  return raw(type === undefined ? disposition : `${disposition}\r\nContent-Type: ${type}`, content);
}

/** A part of a file, or what its disposition has behind `name="file"; `. */
const named = (filename: string, content: string, type?: string): string =>
  part(`name="file"; ${filename}`, content, type);
const url = (text: string, type?: string): string => part('name="url"', text, type);
const form = (...parts: readonly string[]): string =>
  [...parts, '--\r\n'].map((text) => `------Boundary${text}`).join('');

function refused(code: string): FormReading {
  return { kind: 'refused', code };
}

/** `content`: Latin-1, as in the body. */
function file(filename: string, content: string): FormReading {
  const bytes = Buffer.from(content, 'latin1');
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { kind: 'file', filename, sizeBytes: bytes.length, sha256 };
}

const malformed = refused('malformedMultipart');
const nameless = refused('filenameMissing');
const A_TXT = 'filename="a.txt"';

export const formCases: readonly FormCase[] = [
  ['single-file', form(named('filename="test.txt"', 'content', TEXT)), file('test.txt', 'content')],
  [
    'two-files-different-names',
    form(part('name="file1"; filename="1.txt"', '1', TEXT), part('name="file2"; filename="2.txt"', '2', TEXT)),
    refused('severalFiles'),
  ],
  ['wrong-boundary', form(), malformed, 'multipart/form-data; boundary=----BoundaryY'],
  [
    'bad-initial-boundary',
    `------Coundary${named('filename="a"', 'content')}------Boundary--`,
    refused('nothingToScan'),
  ],
  [
    'boundary-with-equal-sign',
    `------=test${raw('Content-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Transfer-Encoding: 7bit', 'x\r\n')}------=test--\r\n`,
    file('a.txt', 'x\r\n'),
    'multipart/form-data; boundary=----=test; charset=utf-8',
  ],
  [
    'urlencoded',
    'url=http%3A%2F%2Fexample.com%2Fa.bin',
    refused('unsupportedMediaType'),
    'application/x-www-form-urlencoded',
  ],
  [
    'empty-part-between-boundaries',
    `------Boundary${part('name="regsubmit"', 'yes')}------Boundary\r\n${form(named(A_TXT, 'x'))}`,
    malformed,
  ],
  [
    'data-mixed-line-ends',
    form(named('filename="m.bin"', 'Foo\nBar\r\nBaz\rQux\n\r', OCTETS)),
    file('m.bin', 'Foo\nBar\r\nBaz\rQux\n\r'),
  ],
  ['data-all-256-bytes', form(named('filename="all.bin"', EVERY_BYTE, OCTETS)), file('all.bin', EVERY_BYTE)],
  ['no-filename-octet-stream', form(part('name="file"', LETTERS, OCTETS)), nameless],
  ['filename-windows-path', form(named('filename="C:\\files\\1k_b.dat"', LETTERS, OCTETS)), file('1k_b.dat', LETTERS)],
  ['filename-traversal', form(named('filename="../../../../etc/passwd"', LETTERS, OCTETS)), file('passwd', LETTERS)],
  ['filename-dotdot-only', form(named('filename=".."', LETTERS, OCTETS)), nameless],
  [
    'ie7-full-path',
    form(named('filename="C:\\a b\\c\\d e 01-02-2003.doc"', 'doc', 'application/msword')),
    file('d e 01-02-2003.doc', 'doc'),
  ],
  ['filename-unquoted', form(part('name=file; filename=foo_bar.txt', 'x\n', TEXT)), file('foo_bar.txt', 'x\n')],
  [
    'filename-percent22',
    form(named('filename="test \\ \\\\ ; \xc3\xb6 %22 = ;"', 'x', TEXT)),
    file(' ; \u00f6 " = ;', 'x'),
  ],
  [
    'filename-utf8-combining',
    form(named('filename="J\xce\x9b\xcc\x8aKE_2023-02-25T16:44:24.129Z.txt"', 'x', TEXT)),
    file('J\u039b\u030aKE_2023-02-25T16:44:24.129Z.txt', 'x'),
  ],
  [
    'filename-star-utf8',
    form(named("filename*=utf-8''n%C3%A4me.txt", LETTERS, OCTETS)),
    file('n\u00e4me.txt', LETTERS),
  ],
  [
    'filename-and-filename-star-conflict',
    form(named(`filename="safe.txt"; filename*=UTF-8''evil.exe`, 'x', OCTETS)),
    file('evil.exe', 'x'),
  ],
  ['filename-star-bad-charset', form(named("filename*=does-not-exist''x.txt", 'x', OCTETS)), nameless],
  ['filename-crlf-injection', form(named('filename="a\nX-Injected: 1.txt"', 'x', OCTETS)), malformed],
  [
    'filename-line-separator',
    form(part('name="title"', 'title'), named('filename="\xe2\x80\xa8.txt"', 'content', TEXT)),
    file('\u2028.txt', 'content'),
  ],
  ['filename-8k', form(named(`filename="${'a'.repeat(8192)}.txt"`, 'ab', TEXT)), file(`${'a'.repeat(251)}.txt`, 'ab')],
  ['extension-none', form(named('filename="README"', 'x', OCTETS)), file('README', 'x')],
  ['extension-dotfile', form(named('filename=".htaccess"', 'x', OCTETS)), file('.htaccess', 'x')],
  [
    'part-header-mixed-case',
    form(raw('cOnTenT-DiSpOsItiOn: form-data; name="file"; filename="test4.txt"\r\nCONTENT-Type: text/plain', '4')),
    file('test4.txt', '4'),
  ],
  [
    'part-header-extra',
    form(
      raw(
        `Content-Disposition: form-data; filename="secret.txt"; name="file"\r\nContent-Type: text/plain; charset=utf-8\r\nX-One: bar\r\nabcdefghijklmnopqrstuvwxyz01234: foo\r\nother!#$%&'*+-.^_\`|~: baz\r\nContent-Length: 6`,
        'aaaaaa',
      ),
    ),
    file('secret.txt', 'aaaaaa'),
  ],
  ['part-without-content-disposition', form(raw('Content-Type: text/plain; charset=utf8', 'a')), malformed],
  ['part-empty-name', form(part('name=""; filename="a.txt"', 'x', TEXT)), refused('nothingToScan')],
  [
    'part-header-no-colon',
    form(raw('no-colon\r\nContent-Disposition: form-data; name="file"; filename="a.txt"', 'data')),
    malformed,
  ],
  [
    'part-header-bad-char',
    form(raw('Content-<<<position: form-data; name="file"; filename="a"', 'content')),
    malformed,
  ],
  [
    'part-header-CRLF-in-name',
    form(raw('Content-\r\nisposition: form-data; name="file"; filename="a"', 'content')),
    malformed,
  ],
  [
    'part-headers-bad-end',
    '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\rQcontent\r\n------Boundary--',
    malformed,
  ],
  ['part-header-very-long-value', form(named(`${A_TXT}\r\nX-Long: ${'v'.repeat(200_000)}`, 'x')), malformed],
  [
    'too-many-parts',
    form(...Array.from({ length: 5_000 }, (_, n) => part(`name="f${n}"`, 'v')), named(A_TXT, 'x', TEXT)),
    malformed,
  ],
  ['field-value-1MiB-plus', form(url(`http://example.com/${'a'.repeat(1_048_576)}`)), malformed],
  ['url-field-whitespace', form(url('   ')), { kind: 'url', url: '   ' }],
  [
    'url-field-crlf',
    form(url('http://example.com/\r\nX-Injected: 1')),
    { kind: 'url', url: 'http://example.com/\r\nX-Injected: 1' },
  ],
  [
    'field-charset-default',
    form(part('name="_charset_"', 'iso-8859-1'), url('http://example.com/caf\xe9')),
    refused('urlRejected'),
  ],
  [
    'field-charset-utf16',
    form(url('h\0t\0t\0p\0:\0/\0/\0a\0/\0', 'text/plain; charset=utf-16le')),
    { kind: 'url', url: 'h\0t\0t\0p\0:\0/\0/\0a\0/\0' },
  ],
  ['cte-base64', form(named(`${A_TXT}\r\nContent-Transfer-Encoding: base64`, 'VGVzdCAxMjM=', TEXT)), malformed],
  ['cte-quoted-printable', form(named(`${A_TXT}\r\nContent-Transfer-Encoding: quoted-printable`, 'a=3Db')), malformed],
  [
    'part-content-encoding-gzip',
    form(
      raw(
        'Content-Type: application/gzip\r\nContent-Encoding: gzip\r\nContent-Disposition: form-data; name=file; filename=batch-1',
        '\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00',
      ),
    ),
    malformed,
  ],
  [
    'nested-multipart-comma-boundary',
    form(
      raw(
        'content-disposition: form-data; name="file"\r\nContent-type: multipart/mixed, boundary=---9876',
        `-----9876${raw('Content-disposition: attachment; filename="file1.txt"', 'content')}-----9876--`,
      ),
    ),
    nameless,
  ],
  [
    'prototype-field-names',
    form(...['__proto__', 'constructor', 'toString'].map((name) => part(`name="${name}"`, 'x')), named(A_TXT, 'x')),
    file('a.txt', 'x'),
  ],
  ['eicar', form(named('filename="eicar.com"', EICAR, OCTETS)), file('eicar.com', EICAR)],
];
