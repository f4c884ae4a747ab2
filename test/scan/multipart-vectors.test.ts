// Multipart bodies of public suites (shared/vectors beside the project): each whole, byte by byte and at random splits, with the answer that is expected.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { z } from 'zod';
import { byteByByte, type FormReading, readForm, splitAt } from './form-reader.js';

const ExpectedFile = z.object({ size: z.number(), sha256: z.string() }).partial();

const Vector = z.object({
  id: z.string(),
  name: z.string(),
  contentType: z.string(),
  bodyBase64: z.string(),
  /** What the parser should find; a word or a choice where readers differ. */
  expect: z.unknown(),
  /** What a service should answer, in words: `200 filename='a.txt' sizeInBytes=1 or 4xx`. */
  service: z.string(),
});
type Vector = z.infer<typeof Vector>;

/** Where the words leave the code open and the contract doesn't. */
const codes = new Map([
  ['mp-003', 'severalFiles'],
  ['mp-005', 'severalFiles'],
  // "The same answer as file-and-url-both".
  ['mp-007', 'fileAndUrl'],
  ['mp-009', 'severalFiles'],
  ['mp-013', 'nothingToScan'],
  ['mp-031', 'unsupportedMediaType'],
  ['mp-051', 'fileEmpty'],
  ['mp-053', 'filenameMissing'],
  ['mp-055', 'filenameMissing'],
  ['mp-061', 'filenameMissing'],
  // The contract: encoded parts are refused, whatever the vector lets pass.
  ['mp-121', 'malformedMultipart'],
  ['mp-123', 'malformedMultipart'],
  ['mp-125', 'malformedMultipart'],
]);

function agrees(vector: Vector, reading: FormReading): boolean {
  switch (reading.kind) {
    case 'refused': {
      const code = codes.get(vector.id);
      return code === undefined ? /\b4xx\b/.test(vector.service) : reading.code === code;
    }
    case 'url':
      return (
        /URL scan|stable reading/.test(vector.service) || (vector.service.startsWith('4xx') && isNoUrl(reading.url))
      );
    case 'file':
      return /(?<!never a )\b200\b/i.test(vector.service) && !codes.has(vector.id) && isExpectedFile(vector, reading);
  }
}

/** What the service refuses when it comes to the URL, after the form has been read. */
function isNoUrl(url: string): boolean {
  return /^\s*$|\p{Cc}/u.test(url) || !URL.canParse(url);
}

type FileReading = Extract<FormReading, { kind: 'file' }>;

function isExpectedFile(vector: Vector, reading: FileReading): boolean {
  const filename = /filename='([^']*)'/.exec(vector.service)?.[1];
  if (filename !== undefined && filename !== reading.filename) return false;
  const { expect } = vector;
  if (typeof expect !== 'object' || expect === null || !('files' in expect)) return true;
  const files = z.array(ExpectedFile).parse(expect.files);
  return files.some(({ size, sha256 }) => {
    return (size ?? reading.sizeBytes) === reading.sizeBytes && (sha256 ?? reading.sha256) === reading.sha256;
  });
}

/** The vectors lie beside the project or above it; null where they weren't delivered. */
function findVectors(): string | null {
  for (let folder = dirname(fileURLToPath(import.meta.url)); folder !== dirname(folder); folder = dirname(folder)) {
    const path = join(folder, 'shared/vectors/multipart.jsonl');
    if (existsSync(path)) return path;
  }
  return null;
}

const vectorsPath = findVectors();
if (vectorsPath === null) {
  t.pass('shared/vectors is absent: the tables of multipart.test.ts stand for themselves');
} else {
  for (const line of readFileSync(vectorsPath, 'utf8').split('\n').filter(Boolean)) {
    const vector = Vector.parse(JSON.parse(line));
    t.test(`${vector.id} ${vector.name}`, async (t) => {
      const body = Buffer.from(vector.bodyBase64, 'base64');
      const whole = readForm(vector.contentType, [body]);
      t.ok(agrees(vector, whole), `${vector.service} <- ${JSON.stringify(whole)}`);
      if (body.length < 10_000) t.same(readForm(vector.contentType, byteByByte(body)), whole, 'byte by byte');
      for (const seed of [3, 17, 91, 1009]) {
        const places = Array.from({ length: 8 }, (_, index) => (seed * (index + 1) * 7919) % (body.length + 1));
        t.same(readForm(vector.contentType, splitAt(body, places)), whole, `split with seed ${seed}`);
      }
    });
  }
}
