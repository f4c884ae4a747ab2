// Multipart bodies that parsers read differently, and what Sluice makes of each.
// Cases known from the tests of busboy, python-multipart, defnull/multipart, multiparty, formidable, werkzeug, Commons FileUpload and Go; RFC 2046, RFC 7578.
import { eicar } from '../../fixtures/samples.js';
import type { FormReading } from './form-reader.js';

export interface FormCase {
  readonly name: string;
  /** Default: that of forms with the boundary ----Boundary. */
  readonly contentType?: string;
  /** Latin-1: a character for each byte. */
  readonly body: string;
  readonly expected: FormReading;
}

const EVERY_BYTE = String.fromCharCode(...Array.from({ length: 256 }, (_, byte) => byte));

function fields(count: number): string {
  return Array.from(
    { length: count },
    (_, n) => `------Boundary\r\nContent-Disposition: form-data; name="f${n}"\r\n\r\nv\r\n`,
  ).join('');
}

function refused(code: string): FormReading {
  return { kind: 'refused', code };
}

function file(filename: string, sizeBytes: number, sha256: string): FormReading {
  return { kind: 'file', filename, sizeBytes, sha256 };
}

export const formCases: readonly FormCase[] = [
  {
    name: 'single-file',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="test.txt"\r\nContent-Type: text/plain\r\n\r\ncontent\r\n------Boundary--\r\n',
    expected: file('test.txt', 7, 'ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73'),
  },
  {
    name: 'two-files-different-names',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file1"; filename="test1.txt"\r\nContent-Type: text/plain\r\n\r\ncontent 1\r\n------Boundary\r\nContent-Disposition: form-data; name="file2"; filename="test2.txt"\r\nContent-Type: text/plain\r\n\r\ncontent 2\r\n------Boundary--\r\n',
    expected: refused('severalFiles'),
  },
  {
    name: 'duplicate-file-second-infected',
    body: `------Boundary\r\nContent-Disposition: form-data; name="file"; filename="clean.txt"\r\nContent-Type: text/plain\r\n\r\nclean\r\n------Boundary\r\nContent-Disposition: form-data; name="file"; filename="eicar.com"\r\nContent-Type: application/octet-stream\r\n\r\n${eicar()}\r\n------Boundary--\r\n`,
    expected: refused('severalFiles'),
  },
  {
    name: 'file-then-url',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\nContent-Type: application/octet-stream\r\n\r\nABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n------Boundary\r\nContent-Disposition: form-data; name="url"\r\n\r\nhttp://example.com/a.bin\r\n------Boundary--\r\n',
    expected: refused('fileAndUrl'),
  },
  {
    name: 'duplicate-url-fields',
    body: '------Boundary\r\nContent-Disposition: form-data; name="url"\r\n\r\nhttp://example.com/a.bin\r\n------Boundary\r\nContent-Disposition: form-data; name="url"\r\n\r\nhttp://169.254.169.254/\r\n------Boundary--\r\n',
    expected: refused('severalFiles'),
  },
  {
    name: 'url-octet-stream-no-filename',
    body: '------Boundary\r\nContent-Disposition: form-data; name="url"\r\nContent-Type: application/octet-stream\r\n\r\nhttp://example.com/a.bin\r\n------Boundary--\r\n',
    expected: { kind: 'url', url: 'http://example.com/a.bin' },
  },
  {
    name: 'empty-form',
    body: '------Boundary--\r\n',
    expected: refused('nothingToScan'),
  },
  {
    name: 'missing-final-boundary-after-crlf',
    contentType: 'multipart/form-data; boundary=MyBoundary',
    body: '--MyBoundary\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ncontent\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'wrong-boundary',
    contentType: 'multipart/form-data; boundary=----BoundaryY',
    body: '------Boundary--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'bad-initial-boundary',
    body: '------Coundary\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\ncontent\r\n------Boundary--',
    expected: refused('nothingToScan'),
  },
  {
    name: 'empty-boundary-parameter',
    contentType: 'multipart/form-data; boundary=',
    body: '--\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nx\r\n----\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'boundary-with-spaces',
    contentType: 'multipart/form-data; boundary="simple boundary with spaces"',
    body: '--simple boundary with spaces\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nx\r\n--simple boundary with spaces--\r\n',
    expected: file('a.txt', 1, '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881'),
  },
  {
    name: 'boundary-with-equal-sign',
    contentType: 'multipart/form-data; boundary=----=test; charset=utf-8',
    body: '------=test\r\nContent-Disposition: form-data; name="file"; filename="plain.txt"\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: 7bit\r\n\r\ncontent\r\n\r\n------=test--\r\n',
    expected: file('plain.txt', 9, 'fc06f48221d98ad6106c3845b33a2a41152482ab9e697f736ad26db4853fa657'),
  },
  {
    name: 'charset-before-boundary',
    contentType: 'multipart/form-data; charset=utf-8; boundary=----Boundary',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="plain.txt"\r\nContent-Type: text/plain\r\n\r\ncontent\n\r\n------Boundary--\r\n',
    expected: file('plain.txt', 8, '434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53'),
  },
  {
    name: 'content-type-upper-case',
    contentType: 'Multipart/Form-Data; BOUNDARY=AaB03x',
    body: '--AaB03x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nx\r\n--AaB03x--\r\n',
    expected: file('a.txt', 1, '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881'),
  },
  {
    name: 'urlencoded',
    contentType: 'application/x-www-form-urlencoded',
    body: 'url=http%3A%2F%2Fexample.com%2Fa.bin',
    expected: refused('unsupportedMediaType'),
  },
  {
    name: 'boundary-prefix-in-data',
    contentType: 'multipart/form-data; boundary=--boundary',
    body: `----boundary\r\nContent-Disposition: form-data; name="file"; filename="q.bin"\r\nContent-Type: application/octet-stream\r\n\r\n${'Q'.repeat(20)}\r\n----boundary${'Q'.repeat(20)}\r\n----boundary--\r\n`,
    expected: refused('malformedMultipart'),
  },
  {
    name: 'boundary-then-CR-in-data',
    contentType: 'multipart/form-data; boundary=--boundary',
    body: `----boundary\r\nContent-Disposition: form-data; name="file"; filename="q.bin"\r\nContent-Type: application/octet-stream\r\n\r\n${'Q'.repeat(20)}\r\n----boundary\r${'Q'.repeat(20)}\r\n----boundary--\r\n`,
    expected: refused('malformedMultipart'),
  },
  {
    name: 'empty-part-between-boundaries',
    body: '------Boundary\r\nContent-Disposition: form-data; name="regsubmit"\r\n\r\nyes\r\n------Boundary\r\n------Boundary\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nx\r\n------Boundary--',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'preamble-text',
    body: 'before the first boundary\r\n------Boundary\r\nContent-Disposition: form-data; name="file"; filename="plain.txt"\r\nContent-Type: text/plain\r\n\r\ncontent\n\r\n------Boundary--\r\n',
    expected: file('plain.txt', 8, '434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53'),
  },
  {
    name: 'epilogue-second-form',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nx\r\n------Boundary--\r\n------Boundary\r\nContent-Disposition: form-data; name="file"; filename="evil.exe"\r\nContent-Type: application/octet-stream\r\n\r\nMZ\r\n------Boundary--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'lf-only',
    contentType: 'multipart/form-data; boundary=MyBoundary',
    body: '--MyBoundary\nContent-Disposition: form-data; name="file"; filename="a.txt"\nContent-Type: text/plain\n\ncontent\n--MyBoundary--\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'data-mixed-line-ends',
    contentType: 'multipart/form-data; boundary=BOUNDARY',
    body: '--BOUNDARY\r\nContent-Disposition: form-data; name="file"; filename="m.bin"\r\nContent-Type: application/octet-stream\r\n\r\nFoo\nBar\r\nBaz\rQux\n\r\r\n--BOUNDARY--\r\n',
    expected: file('m.bin', 18, 'cec063b223c62effced08cc903f4e8e235252e192753f4d84b63d7e8743e4dbd'),
  },
  {
    name: 'data-all-256-bytes',
    contentType: 'multipart/form-data; boundary=BOUNDARY',
    body: `--BOUNDARY\r\nContent-Disposition: form-data; name="file"; filename="all.bin"\r\nContent-Type: application/octet-stream\r\n\r\n${EVERY_BYTE}\r\n--BOUNDARY--\r\n`,
    expected: file('all.bin', 256, '40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880'),
  },
  {
    name: 'data-ends-with-crlf',
    contentType: 'multipart/form-data; boundary=foo',
    body: '--foo\r\nContent-Disposition: form-data; name="file"; filename="testfile"\r\nContent-Type: application/octet-stream\r\n\r\nA\r\n\r\n--foo--\r\n',
    expected: file('testfile', 3, '26ffd5886253906a36a7ea0f6e26056fc36472626cb4894bcb100a34dc69d1db'),
  },
  {
    name: 'zero-byte-file',
    contentType: 'multipart/form-data; boundary=one-two-three',
    body: '--one-two-three\r\nContent-Disposition: form-data; name="file"; filename="empty.bin"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n--one-two-three--\r\n',
    expected: refused('fileEmpty'),
  },
  {
    name: 'empty-filename-with-data',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename=""\r\nContent-Type: text/plain\r\n\r\ncontent\n\r\n------Boundary--\r\n',
    expected: refused('filenameMissing'),
  },
  {
    name: 'no-filename-octet-stream',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"\r\nContent-Type: application/octet-stream\r\n\r\nABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n------Boundary--\r\n',
    expected: refused('filenameMissing'),
  },
  {
    name: 'filename-windows-path',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="C:\\files\\1k_b.dat"\r\nContent-Type: application/octet-stream\r\n\r\nABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n------Boundary--\r\n',
    expected: file('1k_b.dat', 26, 'd6ec6898de87ddac6e5b3611708a7aa1c2d298293349cc1a6c299a1db7149d38'),
  },
  {
    name: 'filename-traversal',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="../../../../etc/passwd"\r\nContent-Type: application/octet-stream\r\n\r\nABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n------Boundary--\r\n',
    expected: file('passwd', 26, 'd6ec6898de87ddac6e5b3611708a7aa1c2d298293349cc1a6c299a1db7149d38'),
  },
  {
    name: 'filename-dotdot-only',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename=".."\r\nContent-Type: application/octet-stream\r\n\r\nABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n------Boundary--\r\n',
    expected: refused('filenameMissing'),
  },
  {
    name: 'ie7-full-path',
    contentType: 'multipart/form-data; boundary=---------------------------0123456789',
    body: '-----------------------------0123456789\r\nContent-Disposition: form-data; name="file"; filename="C:\\a b\\c\\d e 01-02-2003.doc"\r\nContent-Type: application/msword\r\n\r\ndoc\r\n-----------------------------0123456789--\r\n',
    expected: file('d e 01-02-2003.doc', 3, '139d544b821b13ebea14f1b0fe18577222e415c2966e3a3511c4196055232202'),
  },
  {
    name: 'filename-unquoted',
    body: '------Boundary\r\nContent-Disposition: form-data; name=file; filename=foo_bar.txt\r\nContent-Type: text/plain\r\n\r\ncontent\n\r\n------Boundary--\r\n',
    expected: file('foo_bar.txt', 8, '434728a410a78f56fc1b5899c3593436e61ab0c731e9072d95e96db290205e53'),
  },
  {
    name: 'filename-percent22',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="test \\ \\\\ ; \xc3\xb6 %22 = ;"\r\nContent-Type: text/plain\r\n\r\nx\r\n------Boundary--\r\n',
    expected: file(' ; \u00f6 " = ;', 1, '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881'),
  },
  {
    name: 'filename-quote-suffix',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="payload.jpg".html\r\nContent-Type: text/plain\r\n\r\nx\r\n------Boundary--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'filename-utf8-combining',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="J\xce\x9b\xcc\x8aKE_2023-02-25T16:44:24.129Z.txt"\r\nContent-Type: text/plain\r\n\r\nx\r\n------Boundary--\r\n',
    expected: file(
      'J\u039b\u030aKE_2023-02-25T16:44:24.129Z.txt',
      1,
      '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881',
    ),
  },
  {
    name: 'filename-star-utf8',
    body: `------Boundary\r\nContent-Disposition: form-data; name="file"; filename*=utf-8''n%C3%A4me.txt\r\nContent-Type: application/octet-stream\r\n\r\nABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n------Boundary--\r\n`,
    expected: file('n\u00e4me.txt', 26, 'd6ec6898de87ddac6e5b3611708a7aa1c2d298293349cc1a6c299a1db7149d38'),
  },
  {
    name: 'filename-and-filename-star-conflict',
    body: `------Boundary\r\nContent-Disposition: form-data; name="file"; filename="safe.txt"; filename*=UTF-8''evil.exe\r\nContent-Type: application/octet-stream\r\n\r\nx\r\n------Boundary--\r\n`,
    expected: file('evil.exe', 1, '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881'),
  },
  {
    name: 'filename-star-bad-charset',
    body: `------Boundary\r\nContent-Disposition: form-data; name="file"; filename*=does-not-exist''x.txt\r\nContent-Type: application/octet-stream\r\n\r\nx\r\n------Boundary--\r\n`,
    expected: refused('filenameMissing'),
  },
  {
    name: 'filename-crlf-injection',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="a\nX-Injected: 1.txt"\r\nContent-Type: application/octet-stream\r\n\r\nx\r\n------Boundary--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'filename-line-separator',
    contentType: 'multipart/form-data; boundary=----SEPARATOR',
    body: '------SEPARATOR\r\nContent-Disposition: form-data; name="title"\r\n\r\ntitle\r\n------SEPARATOR\r\nContent-Disposition: form-data; name="file"; filename="\xe2\x80\xa8.txt"\r\nContent-Type: text/plain\r\n\r\ncontent\r\n------SEPARATOR--\r\n',
    expected: file('\u2028.txt', 7, 'ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73'),
  },
  {
    name: 'filename-8k',
    body: `------Boundary\r\nContent-Disposition: form-data; name="file"; filename="${'a'.repeat(8192)}.txt"\r\nContent-Type: text/plain\r\n\r\nab\r\n------Boundary--\r\n`,
    expected: file(`${'a'.repeat(251)}.txt`, 2, 'fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603'),
  },
  {
    name: 'extension-none',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="README"\r\nContent-Type: application/octet-stream\r\n\r\nx\r\n------Boundary--\r\n',
    expected: file('README', 1, '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881'),
  },
  {
    name: 'extension-dotfile',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename=".htaccess"\r\nContent-Type: application/octet-stream\r\n\r\nx\r\n------Boundary--\r\n',
    expected: file('.htaccess', 1, '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881'),
  },
  {
    name: 'part-header-mixed-case',
    body: '------Boundary\r\ncOnTenT-DiSpOsItiOn: form-data; name="file"; filename="test4.txt"\r\nCONTENT-Type: text/plain\r\n\r\ncontent 4\r\n------Boundary--\r\n',
    expected: file('test4.txt', 9, 'cabb866ab5c902410cac8f414d84700d943bfb0ee900c8f72fe150cc7e70ad65'),
  },
  {
    name: 'part-header-extra',
    contentType: 'multipart/form-data; boundary=0123456789abcdef',
    body: `--0123456789abcdef\r\nContent-Disposition: form-data; filename="secret.txt"; name="file"\r\nContent-Type: text/plain; charset=utf-8\r\nX-One: bar\r\nabcdefghijklmnopqrstuvwxyz01234: foo\r\nother!#$%&'*+-.^_\`|~: baz\r\nContent-Length: 6\r\n\r\naaaaaa\r\n--0123456789abcdef--`,
    expected: file('secret.txt', 6, 'ed02457b5c41d964dbd2f2a609d63fe1bb7528dbe55e1abf5b52c249cd735797'),
  },
  {
    name: 'part-without-content-disposition',
    body: '------Boundary\r\nContent-Type: text/plain; charset=utf8\r\n\r\na\r\n------Boundary--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'part-empty-name',
    body: '------Boundary\r\nContent-Disposition: form-data; name=""; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nx\r\n------Boundary--\r\n',
    expected: refused('nothingToScan'),
  },
  {
    name: 'part-duplicate-content-disposition',
    body: '------Boundary\r\nContent-Disposition: form-data; name="note"\r\nContent-Disposition: form-data; name="file"; filename="evil.exe"\r\n\r\nx\r\n------Boundary--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'part-header-no-colon',
    contentType: 'multipart/form-data; boundary=boundary',
    body: '--boundary\r\nno-colon\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ndata\r\n--boundary--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'part-header-bad-char',
    body: '------Boundary\r\nContent-<<<position: form-data; name="file"; filename="a"\r\n\r\ncontent\r\n------Boundary--',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'part-header-CRLF-in-name',
    body: '------Boundary\r\nContent-\r\nisposition: form-data; name="file"; filename="a"\r\n\r\ncontent\r\n------Boundary--',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'part-headers-bad-end',
    body: '------Boundary\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\rQcontent\r\n------Boundary--',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'part-header-very-long-value',
    body: `------Boundary\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nX-Long: ${'v'.repeat(200000)}\r\n\r\nx\r\n------Boundary--\r\n`,
    expected: refused('malformedMultipart'),
  },
  {
    name: 'too-many-parts',
    body: `${fields(5_000)}------Boundary\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nx\r\n------Boundary--\r\n`,
    expected: refused('malformedMultipart'),
  },
  {
    name: 'field-value-1MiB-plus',
    body: `------Boundary\r\nContent-Disposition: form-data; name="url"\r\n\r\nhttp://example.com/${'a'.repeat(1048576)}\r\n------Boundary--\r\n`,
    expected: refused('malformedMultipart'),
  },
  {
    name: 'url-field-whitespace',
    body: '------Boundary\r\nContent-Disposition: form-data; name="url"\r\n\r\n   \r\n------Boundary--\r\n',
    expected: { kind: 'url', url: '   ' },
  },
  {
    name: 'url-field-crlf',
    body: '------Boundary\r\nContent-Disposition: form-data; name="url"\r\n\r\nhttp://example.com/\r\nX-Injected: 1\r\n------Boundary--\r\n',
    expected: { kind: 'url', url: 'http://example.com/\r\nX-Injected: 1' },
  },
  {
    name: 'field-charset-default',
    body: '------Boundary\r\nContent-Disposition: form-data; name="_charset_"\r\n\r\niso-8859-1\r\n------Boundary\r\nContent-Disposition: form-data; name="url"\r\n\r\nhttp://example.com/caf\xe9\r\n------Boundary--\r\n',
    expected: refused('urlRejected'),
  },
  {
    name: 'field-charset-utf16',
    body: '------Boundary\r\nContent-Disposition: form-data; name="url"\r\nContent-Type: text/plain; charset=utf-16le\r\n\r\nh\x00t\x00t\x00p\x00:\x00/\x00/\x001\x002\x007\x00.\x000\x00.\x000\x00.\x001\x00/\x00\r\n------Boundary--\r\n',
    expected: {
      kind: 'url',
      url: 'h\u0000t\u0000t\u0000p\u0000:\u0000/\u0000/\u00001\u00002\u00007\u0000.\u00000\u0000.\u00000\u0000.\u00001\u0000/\u0000',
    },
  },
  {
    name: 'cte-base64',
    contentType: 'multipart/form-data; boundary=--boundary',
    body: '----boundary\r\nContent-Disposition: form-data; name="file"; filename="test.txt"\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nVGVzdCAxMjM=\r\n----boundary--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'cte-quoted-printable',
    contentType: 'multipart/form-data; boundary=--boundary',
    body: '----boundary\r\nContent-Disposition: form-data; name="file"; filename="test.txt"\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nfoo=3Dbar\r\n----boundary--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'part-content-encoding-gzip',
    contentType: 'multipart/form-data; boundary=one-two-three',
    body: '--one-two-three\r\nContent-Type: application/gzip\r\nContent-Encoding: gzip\r\nContent-Disposition: form-data; name=file; filename=batch-1\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\r\n--one-two-three--\r\n',
    expected: refused('malformedMultipart'),
  },
  {
    name: 'nested-multipart-comma-boundary',
    contentType: 'multipart/form-data; boundary=---1234',
    body: '-----1234\r\ncontent-disposition: form-data; name="file"\r\nContent-type: multipart/mixed, boundary=---9876\r\n\r\n-----9876\r\nContent-disposition: attachment; filename="file1.txt"\r\nContent-Type: text/plain\r\n\r\ncontent\r\n-----9876--\r\n-----1234--\r\n',
    expected: refused('filenameMissing'),
  },
  {
    name: 'prototype-field-names',
    body: '------Boundary\r\nContent-Disposition: form-data; name="__proto__"\r\n\r\nx\r\n------Boundary\r\nContent-Disposition: form-data; name="constructor"\r\n\r\ny\r\n------Boundary\r\nContent-Disposition: form-data; name="toString"\r\n\r\nz\r\n------Boundary\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nx\r\n------Boundary--\r\n',
    expected: file('a.txt', 1, '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881'),
  },
  {
    name: 'name-case-FILE',
    contentType: 'multipart/form-data; boundary=---1234',
    body: '-----1234\r\nContent-Disposition: form-data; name="FiLe"; filename="FOO.tab"\r\nContent-Type: text/whatever\r\n\r\ncontent\n\r\n-----1234--\r\n',
    expected: refused('nothingToScan'),
  },
  {
    name: 'eicar',
    body: `------Boundary\r\nContent-Disposition: form-data; name="file"; filename="eicar.com"\r\nContent-Type: application/octet-stream\r\n\r\n${eicar()}\r\n------Boundary--\r\n`,
    expected: file('eicar.com', 68, '275a021bbfb6489e54d471899f7db9d1663fc695ec2fe2a2c4538aabf651fd0f'),
  },
];
