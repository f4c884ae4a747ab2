// The multipart parser: the same reading at every cut, no byte lost, nothing cut off in silence, and no other reading than a second parser's.
import { createHash } from 'node:crypto';
import { Busboy } from '@fastify/busboy';
import fc from 'fast-check';
import t from 'tap';
import type { ErrorCode } from '../../../src/errors.js';
import { byteByByte, type FormReading, readForm, splitAt } from './form-reader.js';

const CONTENT_TYPE = 'multipart/form-data; boundary=BOUNDARY';

function bodyOf(...pieces: (string | Uint8Array)[]): Buffer {
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece)));
}

function filePart(content: string | Uint8Array, disposition = 'name="file"; filename="a.bin"'): Buffer {
  return bodyOf(`--BOUNDARY\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`, content, '\r\n');
}

const END = '--BOUNDARY--\r\n';
/** What a browser sends for a file input that was left empty. */
const EMPTY = 'name="file"; filename=""';

function fileOf(content: string | Uint8Array, filename = 'a.bin'): FormReading {
  const bytes = Buffer.from(content);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { kind: 'file', filename, sizeBytes: bytes.length, sha256 };
}

function refused(code: ErrorCode): FormReading {
  return { kind: 'refused', code };
}

const malformed = refused('malformedMultipart');

function notes(count: number): Buffer[] {
  return Array.from({ length: count }, (_, n) => filePart('x', `name="n${n}"`));
}

const cases: [string, Buffer, FormReading][] = [
  ['one file', bodyOf(filePart('hello'), END), fileOf('hello')],
  ['no last line end', bodyOf(filePart('hello'), '--BOUNDARY--'), fileOf('hello')],
  [
    'blanks after a boundary',
    bodyOf(filePart('hello').toString().replace('--BOUNDARY', '--BOUNDARY \t'), END),
    fileOf('hello'),
  ],
  ['preamble', bodyOf('for your old mail reader\r\n', filePart('hello'), END), fileOf('hello')],
  ['data that ends in CR', bodyOf(filePart('hello\r'), END), fileOf('hello\r')],
  ['data that ends in CRLF', bodyOf(filePart('hello\r\n'), END), fileOf('hello\r\n')],
  ['data that ends in dashes', bodyOf(filePart('hello\r\n--'), END), fileOf('hello\r\n--')],
  [
    'nearly the boundary',
    bodyOf(filePart('\r\n--BOUNDAR\r\n--BOUND\r\r\n\n--BOUNDARY'), END),
    fileOf('\r\n--BOUNDAR\r\n--BOUND\r\r\n\n--BOUNDARY'),
  ],
  ['a field beside the file', bodyOf(filePart('note', 'name="note"'), filePart('hello'), END), fileOf('hello')],
  ['empty file', bodyOf(filePart(''), END), { kind: 'refused', code: 'fileEmpty' }],
  ['a file input that was left empty', bodyOf(filePart('', EMPTY), END), refused('nothingToScan')],
  ['an empty input, then a file', bodyOf(filePart('', EMPTY), filePart('hello'), END), fileOf('hello')],
  ['a file, then an empty input', bodyOf(filePart('hello'), filePart('', EMPTY), END), fileOf('hello')],
  [
    'an empty input by another name beside a file',
    bodyOf(filePart('', 'name="second"; filename=""'), filePart('hello'), END),
    fileOf('hello'),
  ],
  [
    'an empty input beside a url',
    bodyOf(filePart('', EMPTY), filePart('http://a/', 'name="url"'), END),
    { kind: 'url', url: 'http://a/' },
  ],
  ['bytes without a filename', bodyOf(filePart('x', EMPTY), END), refused('filenameMissing')],
  ['bytes without a filename after a file', bodyOf(filePart('a'), filePart('x', EMPTY), END), refused('severalFiles')],
  [
    'bytes without a filename by another name after a file',
    bodyOf(filePart('a'), filePart('x', 'name="second"; filename=""'), END),
    refused('severalFiles'),
  ],
  [
    'a url in other bytes than UTF-8',
    bodyOf(filePart(Buffer.from('http://a/\xe4', 'latin1'), 'name="url"'), END),
    refused('urlRejected'),
  ],
  ['boundary with more text', bodyOf(filePart('a\r\n--BOUNDARYX\r\nb'), END), malformed],
  ['boundary with one dash', bodyOf(filePart('a\r\n--BOUNDARY-\r\nb'), END), malformed],
  ['boundary and a bare CR', bodyOf(filePart('a\r\n--BOUNDARY\rb'), END), malformed],
  ['text after the end', bodyOf(filePart('a'), END, 'more'), malformed],
  ['a second form after the end', bodyOf(filePart('a'), END, filePart('b'), END), malformed],
  ['a part without headers', bodyOf('--BOUNDARY\r\n\r\na\r\n', END), malformed],
  [
    'two dispositions',
    bodyOf(filePart('a').toString().replace('\r\n\r\n', '\r\nContent-Disposition: form-data; name="x"\r\n\r\n'), END),
    malformed,
  ],
  ['a folded header', bodyOf(filePart('a').toString().replace('; filename', ';\r\n filename'), END), malformed],
  ['two filenames', bodyOf(filePart('a', 'name="file"; filename="a"; filename="b"'), END), malformed],
  ['text after a quoted filename', bodyOf(filePart('a', 'name="file"; filename="a.jpg".exe'), END), malformed],
  ['an unclosed quote', bodyOf(filePart('a', `name="file"; filename="${'\\'.repeat(8000)}`), END), malformed],
  ['line feeds only', bodyOf(filePart('a').toString().replaceAll('\r\n', '\n'), END), malformed],
  ['17 parts', bodyOf(...notes(16), filePart('a'), END), malformed],
  ['headers over the bound', bodyOf(filePart('a', `name="file"; filename="${'x'.repeat(17_000)}"`), END), malformed],
  ['a field over the bound', bodyOf(filePart('x'.repeat(8193), 'name="note"'), filePart('a'), END), malformed],
  [
    'as many blanks after a boundary as may be',
    bodyOf(
      filePart('hello')
        .toString()
        .replace('--BOUNDARY', `--BOUNDARY${' '.repeat(128)}`),
      END,
    ),
    fileOf('hello'),
  ],
  [
    'more blanks after a boundary',
    bodyOf(
      filePart('a')
        .toString()
        .replace('--BOUNDARY', `--BOUNDARY${' '.repeat(129)}`),
      END,
    ),
    malformed,
  ],
  ['blanks and line ends after the end', bodyOf(filePart('hello'), '--BOUNDARY-- \t\r\n\r\n'), fileOf('hello')],
  ['data of one CR', bodyOf(filePart('\r'), END), fileOf('\r')],
  ['a boundary where content begins', bodyOf(filePart('--BOUNDARY--\r\n'), END), malformed],
  ['a part that other readers see inside the content', bodyOf(filePart(filePart('b')), END), malformed],
  ['content that begins like the boundary', bodyOf(filePart('--BOUNDARx'), END), fileOf('--BOUNDARx')],
  ['content that is a beginning of the boundary', bodyOf(filePart('--BOUND'), END), fileOf('--BOUND')],
  ['a line feed before the delimiter', bodyOf(filePart('a').toString().replace(/\r\n$/, '\n'), END), malformed],
  ['16 parts', bodyOf(...notes(15), filePart('hello'), END), fileOf('hello')],
  [
    'a name of the bytes of a boundary',
    bodyOf(filePart('hello', 'name="file"; filename="--BOUNDARY"'), END),
    fileOf('hello', '--BOUNDARY'),
  ],
  ['nothing', bodyOf(''), malformed],
  ['no parts', bodyOf(END), refused('nothingToScan')],
  ['a url', bodyOf(filePart('http://example.org/', 'name="url"'), END), { kind: 'url', url: 'http://example.org/' }],
  [
    'a url as octets',
    bodyOf(
      filePart('http://a/', 'name="url"')
        .toString()
        .replace('\r\n\r\n', '\r\nContent-Type: application/octet-stream\r\n\r\n'),
      END,
    ),
    { kind: 'url', url: 'http://a/' },
  ],
  ['a file, then a url', bodyOf(filePart('a'), filePart('http://a/', 'name="url"'), END), refused('fileAndUrl')],
  ['a url, then a file', bodyOf(filePart('http://a/', 'name="url"'), filePart('a'), END), refused('fileAndUrl')],
  ['two files', bodyOf(filePart('a'), filePart('b'), END), refused('severalFiles')],
  [
    'a second file by another name',
    bodyOf(filePart('a'), filePart('b', 'name="x"; filename="b"'), END),
    refused('severalFiles'),
  ],
  [
    'two urls',
    bodyOf(filePart('http://a/', 'name="url"'), filePart('http://b/', 'name="url"'), END),
    refused('severalFiles'),
  ],
  ['a url that was left empty before a file', bodyOf(filePart(' \t', 'name="url"'), filePart('a'), END), fileOf('a')],
  ['a url that was left empty behind a file', bodyOf(filePart('a'), filePart('\r\n', 'name="url"'), END), fileOf('a')],
  ['a url behind a file', bodyOf(filePart('a'), filePart(' h', 'name="url"'), END), refused('fileAndUrl')],
  ['a file without a filename and without bytes', bodyOf(filePart('', 'name="file"'), END), refused('nothingToScan')],
  ['a file without a filename', bodyOf(filePart('a', 'name="file"'), END), refused('filenameMissing')],
  ['a file with a blank filename', bodyOf(filePart('a', 'name="file"; filename=" "'), END), refused('filenameMissing')],
  ['a file by another name only', bodyOf(filePart('a', 'name="File"; filename="a"'), END), refused('nothingToScan')],
  [
    'a field of as much as may be',
    bodyOf(filePart('x'.repeat(8192), 'name="note"'), filePart('hello'), END),
    fileOf('hello'),
  ],
  ['a margin over the bound', bodyOf('x'.repeat(17_000), '\r\n', filePart('a'), END), malformed],
];

for (const [name, body, expected] of cases) {
  t.test(`${name}, whole and at every cut`, async (t) => {
    t.strictSame(readForm(CONTENT_TYPE, [body]), expected);
    t.strictSame(readForm(CONTENT_TYPE, byteByByte(body)), expected, 'byte by byte');
    const step = Math.ceil(body.length / 400);
    for (let cut = 1; cut < body.length; cut += step) {
      const reading = readForm(CONTENT_TYPE, splitAt(body, [cut]));
      if (JSON.stringify(reading) !== JSON.stringify(expected)) t.strictSame(reading, expected, `cut at ${cut}`);
    }
  });
}

t.test('the bound on part headers is the same at every cut', async (t) => {
  const block = (length: number): Buffer => {
    const disposition = 'Content-Disposition: form-data; name="file"; filename="a.bin"\r\nX: ';
    return bodyOf('--BOUNDARY\r\n', disposition.padEnd(length, 'x'), '\r\n\r\nhello\r\n', END);
  };
  for (const [length, expected] of [
    [16_384, fileOf('hello')],
    [16_385, malformed],
  ] as const) {
    const body = block(length);
    t.strictSame(readForm(CONTENT_TYPE, byteByByte(body)), expected, `${length} bytes, byte by byte`);
    for (let cut = length; cut < length + 20; cut += 1) {
      t.strictSame(readForm(CONTENT_TYPE, splitAt(body, [cut])), expected, `${length} bytes, cut at ${cut}`);
    }
  }
});

t.test('a body that ends before its closing delimiter is refused, wherever it ends', async (t) => {
  const whole = [
    bodyOf(filePart('note', 'name="note"'), filePart('hello\r\nworld'), '--BOUNDARY--'),
    bodyOf('preamble\r\n', filePart('a\r\n--BOUNDARY'.slice(0, -1)), '--BOUNDARY--'),
    bodyOf(filePart('http://example.org/', 'name="url"'), '--BOUNDARY--'),
  ];
  for (const body of whole) {
    for (let length = 0; length < body.length; length += 1) {
      const cut = body.subarray(0, length);
      for (const chunks of [[cut], byteByByte(cut)]) {
        const reading = readForm(CONTENT_TYPE, chunks);
        if (reading.kind !== 'refused') t.fail(`${length} of ${body.length} bytes were read as a whole form`);
      }
    }
    const reading = readForm(CONTENT_TYPE, [body]);
    t.not(reading.kind, 'refused');
    for (const end of ['\r', '\r\n']) t.strictSame(readForm(CONTENT_TYPE, [body, Buffer.from(end)]), reading);
  }
});

t.test('a form that cannot be served is refused before the rest of it arrives', async (t) => {
  const begun = (disposition: string): Buffer =>
    bodyOf(`--BOUNDARY\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`);
  const url = filePart('http://a/', 'name="url"');
  const cases: [ErrorCode, Buffer][] = [
    ['severalFiles', bodyOf(filePart('a'), begun('name="file"; filename="b"'))],
    ['severalFiles', bodyOf(url, begun('name="url"'))],
    ['fileAndUrl', bodyOf(url, begun('name="file"; filename="b"'))],
    ['fileAndUrl', bodyOf(filePart('a'), begun('name="url"'), 'h'.repeat(100))],
    ['filenameMissing', begun('name="file"; filename=" "')],
    ['filenameMissing', bodyOf(begun('name="file"; filename=""'), 'x'.repeat(100))],
    ['fileTooLarge', bodyOf(begun('name="file"; filename="a"'), Buffer.alloc(10 * 1024 * 1024 + 100))],
  ];
  for (const [code, body] of cases) t.strictSame(readForm(CONTENT_TYPE, [body]), refused(code), code);
});

t.test('content types', async (t) => {
  const body = [bodyOf(filePart('hello'), END)];
  const good = [
    'multipart/form-data; boundary="BOUNDARY"',
    'Multipart/Form-Data;charset=utf-8;BOUNDARY=BOUNDARY',
    'multipart/form-data; boundary=BOUNDARY; charset=utf-8',
    'multipart/form-data; boundary=BOUNDARY ;',
  ];
  for (const type of good) t.strictSame(readForm(type, body), fileOf('hello'), type);
  const bad = [
    '',
    '; boundary=',
    '; boundary=""',
    '; boundary="a',
    '; boundary=BOUNDARY; boundary=OTHER',
    `; boundary=${'x'.repeat(71)}`,
    '; boundary=a\u00e4b',
    '; boundary=a\tb',
    '; boundary="BOUNDARY "',
    '; boundary=" "',
  ];
  for (const rest of bad) t.strictSame(readForm(`multipart/form-data${rest}`, body), malformed, rest);
  for (const type of ['text/plain', 'multipart/mixed; boundary=BOUNDARY', 'multipart/form-datax; boundary=BOUNDARY']) {
    t.strictSame(readForm(type, body), { kind: 'refused', code: 'unsupportedMediaType' }, type);
  }
});

t.test('a boundary may be of any visible ASCII, in its raw checks too', async (t) => {
  const visible = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index)).join('');
  const boundaries = ['*****', '***', '(.*)+$', '{"a":[1]}', '--', '\\\\', '"', 'a;b', "a'b", '#<>@[]^`|~!$%&', 'a b'];
  for (const boundary of [...boundaries, visible.slice(0, 60), visible.slice(34), ...visible]) {
    const type = `multipart/form-data; boundary="${boundary.replace(/["\\]/g, '\\$&')}"`;
    const withBoundary = (text: string): Buffer =>
      Buffer.from(
        text.replaceAll('BOUNDARY', () => boundary),
        'latin1',
      );
    const body = withBoundary(bodyOf(filePart('hello\r\n--'), END).toString('latin1'));
    for (const chunks of [[body], byteByByte(body)])
      t.strictSame(readForm(type, chunks), fileOf('hello\r\n--'), boundary);
    const cut = withBoundary(bodyOf(filePart('a\r\n--BOUNDARY?\r\nhidden'), END).toString('latin1'));
    for (const chunks of [[cut], byteByByte(cut)])
      t.strictSame(readForm(type, chunks), malformed, `${boundary} in the data`);
    if (/["; \\]/.test(boundary)) continue;
    t.strictSame(
      readForm(`multipart/form-data;boundary=${boundary}`, [body]),
      fileOf('hello\r\n--'),
      `${boundary}, bare`,
    );
  }
});

/** Bytes that love what a parser looks for. */
const hostileBytes = fc
  .array(
    fc.oneof(
      fc.constantFrom('\r', '\n', '\r\n', '-', '--', '\r\n--', '\r\n--BOUND', '--BOUNDARY', '\r\n\r\n', 'BOUNDARY'),
      fc.uint8Array({ maxLength: 20 }),
    ),
    { maxLength: 30 },
  )
  .map((pieces) => bodyOf(...pieces))
  // Followed by anything but a line end or two dashes it is a refusal, of which the table above has its cases.
  .filter((bytes) => bytes.length > 0 && !bodyOf('\r\n', bytes, '\r\n--BOUNDAR').includes('\r\n--BOUNDARY'));

t.test('whatever the bytes and the cuts, exactly the bytes come back', async () => {
  fc.assert(
    fc.property(hostileBytes, fc.array(fc.nat(), { maxLength: 12 }), (content, places) => {
      const body = bodyOf(filePart('x', 'name="note"'), filePart(content), END);
      const expected = JSON.stringify(fileOf(content));
      return JSON.stringify(readForm(CONTENT_TYPE, splitAt(body, places))) === expected;
    }),
    { numRuns: 2000 },
  );
});

t.test('another parser reads the same file', async () => {
  await fc.assert(
    fc.asyncProperty(hostileBytes, fc.stringMatching(/^[A-Za-z0-9 ._-]{1,40}$/), async (content, filename) => {
      const body = bodyOf(filePart(content, `name="file"; filename="${filename}"`), END);
      const ours = readForm(CONTENT_TYPE, [body]);
      if (ours.kind === 'refused') return /^[\s.]*$/.test(filename);
      return JSON.stringify(ours) === JSON.stringify(await readByBusboy(body));
    }),
    { numRuns: 500 },
  );
});

function readByBusboy(body: Buffer): Promise<FormReading | null> {
  return new Promise((resolve, reject) => {
    const parser = new Busboy({ headers: { 'content-type': CONTENT_TYPE } });
    let reading: FormReading | null = null;
    parser.on('file', (_name, stream, filename) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        reading = fileOf(Buffer.concat(chunks), filename);
      });
    });
    parser.on('finish', () => resolve(reading));
    parser.on('error', reject);
    parser.end(body);
  });
}
