// The table of raw requests: each gets one of the answers that are expected, no more requests are handled than were sent, and refused ones cost nothing.
import t, { type Test } from 'tap';
import { z } from 'zod';
import { enoughOfTheHour, unitsLeft } from '../fixtures/hour.js';
import { openRaw } from '../fixtures/raw-http.js';
import { startServer } from '../fixtures/server.js';
import { upload } from '../fixtures/upload.js';
import { type RawCase, rawCases } from './raw-table.js';

/** What uWebSockets.js decides before we see the request. None of it is handled as another request than was sent. */
const uwsDecides = new Map([
  ['fragment-version', 'a request line that ends within its version is answered 505 and closed, not waited for'],
  ['fragment-request-line-cr', 'the same'],
  ['te-nbsp', 'bytes above 0x7f around a value are stripped, so the coding reads chunked; the connection is closed'],
  ['header-colon-only', 'a line that is only a colon ends the headers'],
  // The next three are chunk sizes and ends that it reads leniently; the connection is closed after every chunked request.
  ['chunk-letter-g', 'g is taken for a digit'],
  ['chunk-leading-space', 'blanks before a size'],
  ['chunk-empty-size', 'an empty size'],
  ['chunk-data-not-terminated', 'data not followed by CRLF'],
  ['chunk-bare-lf-line', 'a bare LF after a size'],
  ['chunk-ext-cr-padding', 'CR in an extension'],
  ['chunk-colon-digit', 'a colon is taken for a digit'],
]);

/** The same of node:http. */
const nodeDecides = new Map([
  [
    'chunk-terminator-xx',
    'what is behind the last chunk may become a trailer: the answer, which needs no body, is given before',
  ],
]);

const VersionAnswer = z.object({ http: z.string() });

interface Outcome {
  readonly statuses: readonly number[];
}

/** Sends the bytes and collects every answer until the server closes the connection, which it does after ten idle seconds. */
async function send(port: number, raw: Buffer): Promise<Outcome> {
  const connection = await openRaw(port);
  await connection.send(raw);
  const statuses: number[] = [];
  for (let answer = await connection.answer(); answer !== null; answer = await connection.answer()) {
    statuses.push(answer.status);
  }
  connection.end();
  return { statuses };
}

function isExpected({ expected }: RawCase, { statuses }: Outcome): boolean {
  const wanted = expected.split(' ');
  const [first] = statuses;
  if (first === undefined) return wanted.includes('close') || wanted.includes('wait');
  // 505 is how the library refuses what it can't read as a request line of HTTP/1.1.
  if (first === 505) return ['400', '4xx', 'close'].some((each) => wanted.includes(each));
  // There is a page at `/`: what would be 404 for a POST there is 405.
  if (first === 405 && wanted.includes('404')) return true;
  return wanted.some((status) => status === 'any' || String(first).startsWith(status.replace('xx', '')));
}

const server = await startServer({ t });
const { http } = VersionAnswer.parse(await (await fetch(`${server.url}/version`)).json());
const libraryDecides = http.startsWith('node:http') ? nodeDecides : uwsDecides;

async function sendAll(t: Test, cases: readonly RawCase[]): Promise<void> {
  const outcomes = await Promise.all(
    cases.map(async (each) => ({ each, outcome: await send(server.port, Buffer.from(each.raw, 'latin1')) })),
  );
  for (const { each, outcome } of outcomes) {
    const { name, expected, maxAnswers = 3 } = each;
    // Those that are excepted must need it: the list says what is, not what was.
    const got = `${name}: ${JSON.stringify(outcome.statuses)}, expected ${expected}`;
    t.equal(isExpected(each, outcome), !libraryDecides.has(name), got);
    t.ok(outcome.statuses.length <= maxAnswers, `${name}: at most ${maxAnswers} answers`);
  }
}

t.test('requests that must not cost anything', async (t) => {
  await enoughOfTheHour();
  const before = await unitsLeft(server.url);
  await sendAll(
    t,
    rawCases.filter(({ isFree }) => isFree === true),
  );
  t.equal(await unitsLeft(server.url), before);
});

t.test('all others', async (t) => {
  await sendAll(
    t,
    rawCases.filter(({ isFree }) => isFree !== true),
  );
});

t.test('the next request is served', async (t) => {
  t.equal((await upload(server.url, 'x')).status, 200);
});
