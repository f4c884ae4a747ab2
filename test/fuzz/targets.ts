// What reads bytes from outside, as functions that throw when something is wrong: no exception but the documented one, the same at any cut.
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { tokenOf } from '../../src/account/authenticate.js';
import { createGuard } from '../../src/download/guard.js';
import { needOf } from '../../src/engine/clamav/gates/candidates.js';
import { parseSignature } from '../../src/engine/clamav/gates/signature.js';
import { Failure } from '../../src/errors.js';
import { baseName, percentDecoded, withExtension } from '../../src/filename.js';
import { readFrames } from '../../src/history/segment.js';
import { parseJson } from '../../src/http/json.js';
import { readFraming } from '../../src/http/wire.js';
import { contentLengthOf, filenameOf, hiddenBy } from '../../src/icap/exchange.js';
import { type FormFile, openForm } from '../../src/icap/icap-scan.js';
import { RequestOptions } from '../../src/scan/http/body-reader.js';
import { MalformedMultipart, parsePartHeaders } from '../../src/scan/http/multipart-parser.js';
import { heard as heardByClamd } from '../clamd/heard.js';
import { frame } from '../fixtures/history.js';
import { request } from '../icap/client.js';
import { heard as heardByIcap } from '../icap/heard.js';
import { byteByByte, readForm, splitAt } from '../scan/http/form-reader.js';

export interface Target {
  readonly name: string;
  /** Every byte of them is a character. */
  readonly seeds: readonly string[];
  readonly words: readonly string[];
  /** Throws when something is wrong. */
  run(input: Buffer): void;
}

const FORM_TYPE = 'multipart/form-data; boundary=B';
const PART = '--B\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\nhello\r\n';

function icapSeed(...asked: Parameters<typeof request>): string {
  const { bytes, rest } = request(...asked);
  return Buffer.concat([bytes, rest]).toString('latin1');
}

export const targets: readonly Target[] = [
  {
    name: 'multipart',
    seeds: [`${PART}--B--\r\n`, `${PART.replace('filename="a.bin"', 'x')}--B--`, `--B\r\n${PART}`],
    words: ['--B', '--B--', '\r\n', '\n', '\r', 'filename=""', 'name="url"', "filename*=UTF-8''%41", ': ', ';', '"'],
    run(input) {
      const read = (parts: readonly Uint8Array[]): unknown => readForm(FORM_TYPE, parts);
      assertSame(read([input]), read(splitAt(input, [3, 17, input.length >> 1])), read(byteByByte(input)));
    },
  },
  {
    name: 'part headers',
    seeds: [
      'Content-Disposition: form-data; name="file"; filename="a"',
      "Content-Disposition: form-data; filename*=UTF-8''a",
    ],
    words: ['\r\n', ' ', '\t', ';', '"', '\\', '=', ':', 'filename', 'filename*', 'name', 'Content-Type: a/b', '%00'],
    run: (input) => expecting(MalformedMultipart, () => parsePartHeaders(input.toString())),
  },
  {
    name: 'filename',
    seeds: ['report.pdf', '..\\..\\a/b.tar.gz', '%E4%F6', '.profile', `${'x'.repeat(300)}.docx`],
    words: ['/', '\\', '.', '\0', '%', '%2F', '%C3%A4', '\u00fc', '\x7f', 'x'.repeat(255)],
    run(input) {
      const decoded = percentDecoded(input.toString('utf8'));
      const base = baseName(decoded);
      if (base === null) return;
      const { filename, extension } = withExtension(base);
      if (/\p{Cc}/u.test(filename)) throw new Error('a filename has control characters');
      if ([...filename].length > 255) throw new Error('a filename has more than 255 characters');
      if (extension !== '' && !filename.endsWith(`.${extension}`))
        throw new Error('an extension is not that of its name');
    },
  },
  {
    name: 'metadata',
    seeds: ['{"order": 7}', 'tab\t'],
    words: ['\0', '\u0085', '\r\n'],
    run: (input) => expecting(Failure, () => new RequestOptions().setBytes('metadata', input)),
  },
  {
    name: 'URL guard',
    seeds: ['http://example.org/a', 'https://user:pw@[::1]:443/', 'http://0x7f.1/', 'http://metadata.google.internal/'],
    words: [
      '127.0.0.1',
      '[::ffff:10.0.0.1]',
      '0177.0.0.1',
      '169.254.169.254',
      '@',
      '#',
      '?',
      '\\',
      '%2e',
      '\u3002',
      'xn--',
      ':80',
      '.',
    ],
    run: guardRefuses,
  },
  {
    name: 'JSON body',
    seeds: ['{"url": "http://a/"}', '{"name": null}', '[1e400]'],
    words: ['{', '}', '[', ']', '"', ':', ',', 'null', 'true', '__proto__', '\\u0000', '1e999', '"url":'],
    run: (input) => expecting(Failure, () => parseJson(Body, input.toString('utf8'))),
  },
  {
    name: 'headers',
    seeds: ['Host: a\r\nContent-Length: 5', 'Transfer-Encoding: chunked', 'Content-Length: 1\r\nContent-Length: 2'],
    words: ['content-length', 'transfer-encoding', 'chunked', 'cookie', ': ', '\r\n', ',', '0', '+1', '-1', '1e3', ' '],
    run: framingIsClear,
  },
  {
    name: 'cookies',
    seeds: ['sluice_access=a.b.c', 'a=1; sluice_access="x"; sluice_access=y'],
    words: ['sluice_access', '=', ';', ' ', '"', ','],
    run: (input) => expecting(Failure, () => tokenOf({ headers: new Map([['cookie', input.toString('latin1')]]) })),
  },
  {
    name: 'journal',
    seeds: [frame('"a"').toString('latin1'), Buffer.concat([frame('{}'), frame('"b"')]).toString('latin1')],
    words: [frame('1').toString('latin1'), '\0\0\0\0', '\x01\0\0\0', '\xff\xff\xff\xff'],
    run: framesAreWhole,
  },
  {
    name: 'signatures',
    seeds: [
      'A.B-1;Engine:81-255,Target:1;(0&1)|2>3;6162636465;EOF-20:41??42{4-8}4344;0/ab+c/i',
      'A;Target:0;0;41424344::iw',
    ],
    words: [
      '&',
      '|',
      '(',
      ')',
      '=',
      '>',
      ',',
      ';',
      '{-5}',
      '(aa|bb)',
      '!(aa)',
      '[2-4]',
      '*',
      '??',
      '::f',
      'Container:CL_TYPE_MAIL',
      'EP+0:',
      '#',
    ],
    run(input) {
      const parsed = parseSignature(input.toString('latin1'));
      if (parsed.understood) needOf(parsed.signature, () => 0.5);
    },
  },
  {
    name: 'clamd',
    seeds: [
      'zPING\0',
      'nINSTREAM\n\0\0\0\x03abc\0\0\0\0',
      'nIDSESSION\nnVERSION\nzEND\0',
      'SCAN /tmp\n',
      'zFILDES\0\0',
    ],
    words: ['z', 'n', '\n', '\0', '\0\0\0\x01', 'INSTREAM', 'PING', 'STATS', 'CONTSCAN /', 'IDSESSION', 'END'],
    run: (input) => sameAtEveryCut(heardByClamd, input),
  },
  {
    name: 'ICAP',
    seeds: [
      icapSeed({ method: 'OPTIONS' }),
      icapSeed({ body: Buffer.from('hello'), preview: 2 }),
      icapSeed({ method: 'REQMOD', body: Buffer.from('a=1'), http: 'POST / HTTP/1.1\r\nHost: a\r\n\r\n' }),
    ],
    words: [
      '\r\n',
      '\n',
      '0\r\n\r\n',
      '0; ieof\r\n\r\n',
      'Encapsulated: ',
      'null-body=0',
      'res-body=',
      'Preview: 0',
      'Allow: 204',
      'ffffffff',
      'ICAP/1.0',
    ],
    run: (input) => sameAtEveryCut(heardByIcap, input),
  },
  {
    name: 'form in ICAP',
    seeds: [`${PART}--B--\r\n`, `${PART}${PART.replace('name="file"; filename="a.bin"', 'name="x"')}--B--`],
    words: [
      '--B',
      '--B--',
      '\r\n',
      '\n',
      '\r',
      'filename=""',
      "filename*=UTF-8''%41",
      ': ',
      ';',
      '"',
      'x'.repeat(9_000),
    ],
    run: filesAreInTheBody,
  },
  {
    name: 'HTTP headers in ICAP',
    seeds: [
      'GET http://a/b.zip HTTP/1.1\r\nHost: a\r\n\r\n',
      'GET http:\u00d6\u0087/ HTTP/1.1\r\nHost: a\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename="a"\r\n\r\n',
    ],
    words: ['Content-Length: ', 'Content-Encoding: br', '\r\n', ':', '%', 'filename*=', '"', '/'],
    run(input) {
      contentLengthOf(input);
      hiddenBy('RESPMOD', input);
      filenameOf(input, input);
    },
  },
];

const Body = z.strictObject({ url: z.string().nullish(), name: z.string().max(100).nullish() });

function expecting(kind: typeof Failure | typeof MalformedMultipart, run: () => unknown): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof kind)) throw error;
  }
}

function assertSame(...values: readonly unknown[]): void {
  for (const value of values) {
    if (!isDeepStrictEqual(value, values[0])) throw new Error('the same bytes are read in two ways');
  }
}

function sameAtEveryCut(heard: (parts: readonly Uint8Array[]) => unknown, input: Buffer): void {
  assertSame(heard([input]), heard(splitAt(input, [1, 7, input.length >> 1])), heard(byteByByte(input)));
}

/** Where each file is said to lie is what was read as its bytes. */
function filesAreInTheBody(input: Buffer): void {
  const read = (parts: readonly Uint8Array[]): readonly FormFile[] | string => {
    const form = openForm({ types: [FORM_TYPE], isEncoded: false });
    for (const part of parts) form?.write(Buffer.from(part));
    try {
      return form?.files() ?? [];
    } catch (error) {
      if (error instanceof Failure) return error.message;
      throw error;
    }
  };
  const files = read([input]);
  assertSame(files, read(splitAt(input, [3, 17, input.length >> 1])), read(byteByByte(input)));
  if (typeof files === 'string') return;
  for (const { offset, sizeBytes, sha256 } of files) {
    const digest = createHash('sha256').update(input.subarray(offset, offset + sizeBytes));
    if (digest.digest('hex') !== sha256) throw new Error('a file does not lie where it is said to');
  }
}

const guard = createGuard({ allowNetworks: [] });
/** The forms in which a URL parser leaves an address, and names of this machine. */
const LOCAL =
  /^(?:(?:0|10|127)(?:\.\d+){3}|(?:169\.254|192\.168)(?:\.\d+){2}|\[::1?\]|(?:.*\.)?(?:localhost|internal|local)\.?)$/;

/** What is allowed leads to no private address as it stands, and stays allowed as it is written then. */
function guardRefuses(input: Buffer): void {
  const checked = guard.checkUrl(input.toString('utf8'));
  if (!checked.allowed) return;
  const { hostname, protocol, username } = checked.url;
  if (LOCAL.test(hostname) || username !== '' || !/^https?:$/.test(protocol))
    throw new Error('a private place is allowed');
  if (!guard.checkUrl(checked.url.href).allowed) throw new Error('an allowed URL is refused as it is written');
}

function framingIsClear(input: Buffer): void {
  const headers = input
    .toString('latin1')
    .split('\r\n')
    .flatMap((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, Math.max(0, colon)).toLowerCase(), line.slice(colon + 1).trim()];
    });
  const { body, problem } = readFraming({ method: 'POST', path: '/', query: '', version: '1.1', headers });
  const names = headers.filter((_, index) => index % 2 === 0);
  const framings = names.filter((name) => name === 'content-length' || name === 'transfer-encoding').length;
  if (problem === null && framings > 1) throw new Error('two framings are no problem');
  if (body.kind === 'sized' && !Number.isSafeInteger(body.bytes)) throw new Error('a length is no integer');
}

/** All bytes are accounted for, and what was read is written as it was. */
function framesAreWhole(input: Buffer): void {
  let at = 0;
  let written = 0;
  while (at < input.length) {
    const { payloads, nextBytes, damagedBytes, tornBytes } = readFrames(input.subarray(at), 2, { isEnd: true });
    if (nextBytes <= 0) throw new Error('reading stands still');
    for (const payload of payloads) written += frame(payload).length;
    written += damagedBytes + tornBytes;
    at += nextBytes;
  }
  // A payload that is no UTF-8 is written longer than it was; JSON of ours always is.
  if (written < input.length) throw new Error('bytes are missing');
}
