// Mixed traffic at a steady rate, as an open loop: uploads, raw bodies, URLs, clamd's protocol and ICAP, with contents whose verdicts are known. A client may try again what had no answer.
import { randomBytes } from 'node:crypto';
import { type Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { ask, bytesOf, stream } from '../clamd/client.js';
import { type Answers, toldBy } from '../faults/kept-rows.js';
import { zip } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';
import { connect } from '../icap/client.js';
import { errorTextOf, idleMsOf, isFree, type Protocol, UnansweredList } from './unanswered.js';

export interface Places {
  readonly port: number;
  /** Of the account that is scanned for. */
  readonly key: string;
  /** Null: nothing is sent by this protocol. */
  readonly clamdSocket: string | null;
  readonly icapPort: number | null;
  /** Of an origin that answers `/clean` and `/infected`. */
  readonly originPort: number;
  readonly agent: Agent;
  /** Of what had no answer, or another one than it may have for good. */
  readonly retriesMax?: number;
  /** Sees each answer of HTTP. */
  readonly onAnswer?: (answer: IncomingMessage) => void;
}

type Verdict = 'clean' | 'infected';
/** Besides verdicts: what is refused as documented, and what has no answer. */
type Outcome = Verdict | `status ${number}` | 'error' | 'no answer';

/** The connection ended before its answer, or there was none. `idleMs`: as of UnansweredList. */
class NoAnswer extends Error {
  readonly idleMs: number | null;

  constructor(error: unknown, idleMs: number | null) {
    super(errorTextOf(error));
    this.idleMs = idleMs;
  }
}

interface Kind {
  readonly name: string;
  /** Of a hundred. */
  readonly share: number;
  readonly expected: Outcome;
  send(places: Places, answers: Answers, serial: number): Promise<Outcome>;
}

const BOUNDARY = 'sluice-soak';
const REPEATED = randomBytes(1_000);
const infectedZip = zip([{ name: 'inside.com', content: eicar() }]);

const kinds: readonly Kind[] = [
  upload('1 KB', 35, 'clean', () => randomBytes(1_000)),
  upload('the same again', 10, 'clean', () => REPEATED),
  upload('100 KB', 8, 'clean', () => randomBytes(100_000)),
  upload('2 MB', 1, 'clean', () => randomBytes(2_000_000)),
  upload('EICAR', 6, 'infected', eicar),
  upload('EICAR in a zip', 5, 'infected', () => infectedZip),
  upload('nothing', 3, 'status 400', () => Buffer.alloc(0)),
  {
    name: 'raw body',
    share: 8,
    expected: 'clean',
    send: (places, answers, serial) => sendRaw(places, answers, serial),
  },
  { name: 'URL', share: 4, expected: 'clean', send: (places, answers) => sendUrl(places, answers, 'clean') },
  {
    name: 'infected URL',
    share: 2,
    expected: 'infected',
    send: (places, answers) => sendUrl(places, answers, 'infected'),
  },
  { name: 'INSTREAM', share: 7, expected: 'clean', send: (places) => sendStream(places, randomBytes(1_000)) },
  { name: 'infected INSTREAM', share: 4, expected: 'infected', send: (places) => sendStream(places, eicar()) },
  { name: 'RESPMOD', share: 5, expected: 'clean', send: (places) => sendIcap(places, randomBytes(1_000)) },
  { name: 'infected RESPMOD', share: 2, expected: 'infected', send: (places) => sendIcap(places, eicar()) },
];
/** Of a service, or of a proxy before it, which has nobody for the moment. */
const TRY_AGAIN = /^(?:no answer|status 50[234])$/;
const RETRY_AFTER_MS = 1_000;

/** Of one minute, or of all. */
export class Tally {
  readonly outcomes = new Map<string, number>();
  readonly tookMs: number[] = [];

  /** What was tried again, and how often it was for one request at most. */
  readonly retried = new Map<string, number>();
  retriesMost = 0;

  /** `retried`: the outcomes of its attempts before. */
  add(outcome: string, tookMs: number, retried: readonly string[]): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
    this.tookMs.push(tookMs);
    for (const each of retried) this.retried.set(each, (this.retried.get(each) ?? 0) + 1);
    this.retriesMost = Math.max(this.retriesMost, retried.length);
  }

  /** In milliseconds. */
  at(share: number): number {
    const sorted = this.tookMs.toSorted((a, b) => a - b);
    return Math.round((sorted[Math.floor((sorted.length - 1) * share)] ?? 0) * 10) / 10;
  }
}

export class Traffic {
  /** What HTTP's scans were answered, by scan id. */
  readonly answers: Answers = new Map();
  readonly problems: string[] = [];
  readonly unanswered = new UnansweredList();
  /** Verdicts by clamd's protocol and ICAP, whose answers name no scan. */
  unnamed = 0;
  sent = 0;
  minute = new Tally();
  readonly #places: Places;
  readonly #random: () => number;
  readonly #open = new Set<Promise<void>>();
  /** Each as often as it has shares. */
  readonly #kinds: readonly Kind[];

  constructor(places: Places, random: () => number) {
    this.#places = places;
    this.#random = random;
    const { clamdSocket, icapPort } = places;
    const isSent = (kind: Kind): boolean =>
      !(clamdSocket === null && protocolOf(kind) === 'clamd') && !(icapPort === null && protocolOf(kind) === 'ICAP');
    this.#kinds = kinds.filter(isSent).flatMap((kind) => Array<Kind>(kind.share).fill(kind));
  }

  /** Sends one; its time counts from now. */
  begin(): void {
    const kind = this.#kinds[Math.floor(this.#random() * this.#kinds.length)];
    if (kind === undefined) throw new Error('There are kinds');
    this.sent += 1;
    const one = this.#send(kind, this.sent, performance.now());
    this.#open.add(one);
    void one.finally(() => this.#open.delete(one));
  }

  async settled(): Promise<void> {
    await Promise.all(this.#open);
  }

  /** Begins a new minute, and returns the one before. */
  next(): Tally {
    const last = this.minute;
    this.minute = new Tally();
    return last;
  }

  async #send(kind: Kind, serial: number, begunMs: number): Promise<void> {
    const { retriesMax = 0 } = this.#places;
    let outcome = await this.#attempt(kind, serial);
    const retried: Outcome[] = [];
    while (retried.length < retriesMax && TRY_AGAIN.test(outcome)) {
      retried.push(outcome);
      await delay(RETRY_AFTER_MS);
      outcome = await this.#attempt(kind, serial);
    }
    this.minute.add(outcome, performance.now() - begunMs, retried);
    const isVerdict = outcome === 'clean' || outcome === 'infected';
    if (isVerdict && protocolOf(kind) !== 'HTTP') this.unnamed += 1;
    const isWrong = isVerdict ? outcome !== kind.expected : outcome === 'status 500';
    if (isWrong) this.problems.push(`${kind.name} was answered "${outcome}"`);
  }

  async #attempt(kind: Kind, serial: number): Promise<Outcome> {
    const begunMs = performance.now();
    try {
      return await kind.send(this.#places, this.answers, serial);
    } catch (error) {
      const { message, idleMs } = error instanceof NoAnswer ? error : new NoAnswer(error, null);
      this.unanswered.add({ protocol: protocolOf(kind), error: message, idleMs }, performance.now() - begunMs);
      return 'no answer';
    }
  }
}

function protocolOf({ name }: Kind): Protocol {
  if (name.includes('INSTREAM')) return 'clamd';
  return name.includes('RESPMOD') ? 'ICAP' : 'HTTP';
}

function upload(name: string, share: number, expected: Outcome, make: () => Buffer): Kind {
  const send: Kind['send'] = (places, answers, serial) => {
    const filename = `${serial}.bin`;
    const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="${filename}"\r\n\r\n`;
    const body = Buffer.concat([Buffer.from(head), make(), Buffer.from(`\r\n--${BOUNDARY}--\r\n`)]);
    return post(places, answers, { type: `multipart/form-data; boundary=${BOUNDARY}`, filename, body });
  };
  return { name, share, expected, send };
}

function sendRaw(places: Places, answers: Answers, serial: number): Promise<Outcome> {
  const filename = `${serial}.raw`;
  return post(places, answers, { type: 'application/octet-stream', filename, body: randomBytes(1_000) });
}

function sendUrl(places: Places, answers: Answers, verdict: Verdict): Promise<Outcome> {
  const body = Buffer.from(JSON.stringify({ url: `http://127.0.0.1:${places.originPort}/${verdict}` }));
  return post(places, answers, { type: 'application/json', filename: verdict, body });
}

interface Sent {
  readonly type: string;
  readonly filename: string;
  readonly body: Buffer;
}

function post(
  { port, agent, key, onAnswer }: Places,
  answers: Answers,
  { type, filename, body }: Sent,
): Promise<Outcome> {
  const isRaw = type === 'application/octet-stream';
  const headers = {
    'X-API-KEY': key,
    'Content-Type': type,
    'Content-Length': body.length,
    ...(isRaw ? { 'X-Filename': filename } : {}),
  };
  return new Promise((resolve, reject) => {
    let idleMs: number | null = null;
    const fail = (error: unknown): void => reject(new NoAnswer(error, idleMs));
    const sent = request({ port, path: '/api/v1/scans', method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      response.on('error', fail);
      response.on('end', () => {
        if (sent.socket !== null) isFree(sent.socket);
        const status = response.statusCode ?? 0;
        const id = response.headers['x-scan-id'];
        const answer: unknown = JSON.parse(text);
        onAnswer?.(response);
        if (typeof id === 'string') answers.set(id, toldBy(status, answer, filename));
        if (status !== 200) resolve(`status ${status}`);
        else resolve(Object(answer).infected === true ? 'infected' : 'clean');
      });
    });
    sent.on('socket', (socket) => {
      idleMs = idleMsOf(socket);
    });
    sent.on('error', fail);
    sent.end(body);
  });
}

async function sendStream({ clamdSocket }: Places, content: Buffer): Promise<Outcome> {
  if (clamdSocket === null) throw new Error('There is no socket');
  const answer = await ask({ path: clamdSocket }, bytesOf('zINSTREAM\0', stream(content)));
  if (answer === 'stream: OK\0') return 'clean';
  if (answer.endsWith(' FOUND\0')) return 'infected';
  if (answer === '') throw new Error('the connection ended without a word');
  return 'error';
}

async function sendIcap({ icapPort }: Places, body: Buffer): Promise<Outcome> {
  if (icapPort === null) throw new Error('There is no port');
  const client = await connect(icapPort);
  try {
    const { status, headers } = await client.ask({ body, headers: ['Allow: 204'] });
    if (status === 204) return 'clean';
    return headers.has('x-infection-found') ? 'infected' : `status ${status}`;
  } finally {
    client.end();
  }
}
