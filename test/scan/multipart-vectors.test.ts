// Multipart bodies of public suites (../shared/vectors): each whole, byte by byte and at random splits, with the answer that is expected.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { z } from 'zod';
import { byteByByte, type FormReading, readForm, splitAt } from './form-reader.js';

const vectorsPath = fileURLToPath(new URL('../../../../shared/vectors/multipart.jsonl', import.meta.url));

const Vector = z.object({
  id: z.string(),
  name: z.string(),
  contentType: z.string(),
  bodyBase64: z.string(),
  service: z.string(),
});

/** `200 filename='a.txt' sizeInBytes=1 or 4xx` and the like, as data. */
function agrees(service: string, reading: FormReading): boolean {
  const refusable = /4xx/.test(service);
  if (reading.kind === 'refused') return refusable;
  // A URL is judged later, by what it says: here it only has to be read as one.
  if (reading.kind === 'url') return !service.startsWith('200');
  if (service.startsWith('4xx') && !/\bor\b|200/.test(service)) return false;
  const filename = /filename='([^']*)'/.exec(service)?.[1];
  const size = /sizeInBytes=(\d+)|\((\d+) bytes\)/.exec(service);
  const sizeBytes = size?.[1] ?? size?.[2];
  return (
    (filename === undefined || filename === reading.filename) &&
    (sizeBytes === undefined || Number(sizeBytes) === reading.sizeBytes)
  );
}

/** Where the text is no answer by itself: mp-045 sends 18 bytes, as its own parse level expects. */
const misstated = new Map([
  ['mp-045', '200 sizeInBytes=18'],
  // "The same answer as file-and-url-both": a refusal.
  ['mp-007', '4xx'],
]);

if (!existsSync(vectorsPath)) {
  t.pass('shared/vectors is absent: the tables of multipart.test.ts stand for themselves');
} else {
  for (const line of readFileSync(vectorsPath, 'utf8').split('\n').filter(Boolean)) {
    const vector = Vector.parse(JSON.parse(line));
    t.test(`${vector.id} ${vector.name}`, async (t) => {
      const body = Buffer.from(vector.bodyBase64, 'base64');
      const whole = readForm(vector.contentType, [body]);
      const service = misstated.get(vector.id) ?? vector.service;
      t.ok(agrees(service, whole), `${service} <- ${JSON.stringify(whole)}`);
      if (body.length < 10_000) t.same(readForm(vector.contentType, byteByByte(body)), whole, 'byte by byte');
      for (const seed of [3, 17, 91, 1009]) {
        const places = Array.from({ length: 8 }, (_, index) => (seed * (index + 1) * 7919) % (body.length + 1));
        t.same(readForm(vector.contentType, splitAt(body, places)), whole, `split with seed ${seed}`);
      }
    });
  }
}
