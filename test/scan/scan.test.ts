// The scan without any protocol: bytes in, what came of them out, and what is known of one that fails.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import t from 'tap';
import { loadSignatures } from '../../src/engine/signatures.js';
import { ScanPool } from '../../src/engine/threads/pool.js';
import { Failure, Unavailable } from '../../src/errors.js';
import { CONTENT_LIMIT_BYTES } from '../../src/limits.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { UploadMemory } from '../../src/scan/memory/memory.js';
import { type Admitted, Scan, type ScanParts } from '../../src/scan/scan.js';
import { createRefunds } from '../../src/scan/scan-facts.js';
import { createKnownVerdicts, createVerdictCache } from '../../src/scan/verdicts/known.js';
import { zip } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';

const MIB = 1024 * 1024;
const memory = new UploadMemory({
  budgetBytes: 64 * MIB,
  reserveShare: 0.25,
  waitMs: 10_000,
  ownWaitMs: 10_000,
  use: 'uploads',
});
const signatures = loadSignatures({ directories: [ownSignaturesDirectory], scanTimeoutMs: 10_000 });
const pool = new ScanPool({ threads: 1, queueLimit: 10, scanTimeoutMs: 10_000, encryptedArchives: 'reject' });
t.teardown(async () => {
  await pool.stop();
  await signatures.stop();
});
const rows: object[] = [];
let journal: 'open' | 'closed' | 'broken' = 'open';
const known = createKnownVerdicts({ cache: createVerdictCache({ limitBytes: MIB }), shared: null, scope: 'shared' });
/** Thrown where a verdict is to be remembered. */
let bug: Error | null = null;
const parts: ScanParts = {
  pool,
  signatures,
  refused: new Set<string>(),
  known: {
    ...known,
    keep(...verdict) {
      if (bug !== null) throw bug;
      known.keep(...verdict);
    },
  },
  uploadMemory: memory,
  downloadMemory: memory,
  downloads: {
    fetch: () => Promise.reject(new Failure('downloadFailed', 'the origin took too long')),
    check: () => undefined,
  },
  history: {
    refusal: () => (journal === 'closed' ? new Unavailable('journalRefuses') : null),
    append(scan) {
      if (journal === 'broken') {
        scan.onUnrecorded(new Unavailable('notRecorded'));
        return;
      }
      rows.push(scan.row());
      setImmediate(() => scan.onRecorded());
    },
  },
  refunds: createRefunds(),
  appEnv: 'TEST',
  now: Date.now,
  onEnded: () => undefined,
  traces: null,
};

/** As clamd or ICAP would hand it over: pieces, and their end. */
class PieceScan extends Scan {
  override readonly limitBytes = CONTENT_LIMIT_BYTES;
  readonly answered: Promise<void>;
  readonly #send: (scan: PieceScan) => void;
  #resolve: () => void = () => undefined;

  constructor(send: (scan: PieceScan) => void) {
    super(parts, 'r');
    this.#send = send;
    this.answered = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  receive(): void {
    this.#send(this);
  }

  take(filename: string, content: Uint8Array, pieceBytes: number): void {
    this.filename = filename;
    const received = this.openContent(content.length);
    for (let at = 0; at < content.length; at += pieceBytes) received.append(content.subarray(at, at + pieceBytes));
    this.endOfContent();
  }

  /** As of an upload that had no room while its caller was looked up. */
  lose(): void {
    this.fail(new Unavailable('uploadsBusy'));
  }

  takeUrl(url: string): void {
    this.fetchUrl(url);
  }

  signal(): AbortSignal {
    return new AbortController().signal;
  }

  // Its bytes are there at once, and nobody leaves.
  endReceiving = (): undefined => undefined;
  hold = (): undefined => undefined;
  goOn = (): undefined => undefined;
  watch = (): undefined => undefined;
  unwatch = (): undefined => undefined;

  answer(): void {
    this.#resolve();
  }
}

let refunds = 0;

function admission(): Admitted {
  const quota = { limit: 10, remaining: 9, resetEpochSeconds: 3600 };
  return {
    outcome: 'admitted',
    userId: 'a',
    keyId: null,
    quota,
    async refund() {
      refunds += 1;
      return { ...quota, remaining: 10 };
    },
  };
}

async function scanned(send: (scan: PieceScan) => void): Promise<PieceScan> {
  const scan = new PieceScan(send);
  scan.onAdmission(admission());
  await scan.answered;
  return scan;
}

function bytes(filename: string, content: Uint8Array, pieceBytes = 7): (scan: PieceScan) => void {
  return (scan) => scan.take(filename, content, pieceBytes);
}

function factsOf(content: Uint8Array) {
  return { wholeBytes: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}

t.test('until the engine is loaded nothing is received', async (t) => {
  const scan = await scanned(() => {
    throw new Error('It was asked for its bytes');
  });
  t.match(scan, { problem: { label: 'unavailable.engineLoading' }, isWhole: false, wholeBytes: null, status: 503 });
  await signatures.ready();
});

t.test('a content has its verdict, the second time the remembered one', async (t) => {
  const content = eicar();
  const verdict = { kind: 'infected' };
  const first = await scanned(bytes('a.com', content));
  t.match(first, { stage: 'answered', filename: 'a.com', extension: 'com', ...factsOf(content), verdict, status: 200 });
  t.match(first, { looked: 'now' });
  t.match(rows.at(-1), { id: first.scanId, userId: 'a', virusName: first.virusName, sizeBytes: content.length });
  t.match(await scanned(bytes('b', content)), { looked: 'for the account', durationMs: 0, verdict });
});

t.test('of a scan that fails all is known that its history needs', async (t) => {
  const content = zip([{ name: 'secret', content: Buffer.from('secret'), encrypted: true }]);
  const scan = await scanned(bytes('secret.zip', content));
  t.match(scan, {
    problem: { label: 'scanIncomplete' },
    failure: 'scanIncomplete',
    isWhole: true,
    filename: 'secret.zip',
    ...factsOf(content),
  });
  t.ok(scan.durationMs > 0);
  t.match(rows.at(-1), { status: 422, error: scan.error, filename: 'secret.zip' });
});

t.test('an empty content, a URL that is not served, and what nobody foresaw come to an end too', async (t) => {
  const empty = await scanned((scan) => {
    scan.filename = 'empty';
    scan.take('empty', Buffer.alloc(0), 1);
  });
  t.match(empty, { problem: { label: 'fileEmpty' }, filename: 'empty', isWhole: false, wholeBytes: null });
  const away = await scanned((scan) => scan.takeUrl('http://files.example/a/report.pdf?x=1'));
  t.match(away, { problem: { label: 'downloadFailed' }, filename: 'report.pdf', isWhole: true, wholeBytes: null });
  const bug = new Error('a bug');
  const before = refunds;
  const broken = await scanned(() => {
    throw bug;
  });
  t.match(broken, { problem: bug, failure: 'internal', status: 500, quota: { remaining: 10 } });
  t.equal(refunds, before + 1);
  t.equal(memory.lentBytes, 0, 'no memory is left behind');
});

t.test('what can not be recorded is not answered with its verdict, and costs no unit', async (t) => {
  for (const state of ['closed', 'broken'] as const) {
    journal = state;
    const before = refunds;
    const scan = await scanned(bytes('a.com', eicar()));
    t.match(scan, { verdict: null, scanId: null, problem: { code: 'unavailable' }, quota: { remaining: 10 } }, state);
    t.equal(refunds, before + 1);
  }
  journal = 'open';
  t.equal(memory.lentBytes, 0);
});

t.test('a scan that has begun before its admission is answered behind it, and is dropped without one', async (t) => {
  const content = Buffer.from('begun early');
  const scan = new PieceScan(bytes('early', content));
  const before = rows.length;
  scan.begin('a');
  while (!scan.isDecided) await new Promise((resolve) => setImmediate(resolve));
  t.equal(scan.stage, 'admitting');
  t.equal(rows.length, before);
  scan.onAdmission(admission());
  await scan.answered;
  t.match(scan, { stage: 'answered', ...factsOf(content) });
  t.equal(rows.length, before + 1);

  const url = new PieceScan((each) => each.takeUrl('http://files.example/a'));
  url.begin('a');
  t.equal(url.stage, 'admitting', 'no origin is asked for somebody who may not be admitted');
  url.drop();
  const dropped = new PieceScan(bytes('dropped', Buffer.from('dropped')));
  dropped.begin('a');
  dropped.drop();
  const other = new PieceScan(bytes('other', Buffer.from('other')));
  other.begin('b');
  other.onAdmission(admission());
  await other.answered;
  t.match(other, { problem: Error('Another user was admitted than was expected'), scanId: null });
  while (memory.lentBytes > 0) await new Promise((resolve) => setImmediate(resolve));
  t.equal(rows.length, before + 1);
});

t.test('a scan that has failed before it began is answered as well when it is admitted', async (t) => {
  const scan = new PieceScan(() => {
    throw new Error('It was asked for its bytes');
  });
  scan.lose();
  t.equal(scan.stage, 'admitting');
  scan.onAdmission(admission());
  await scan.answered;
  t.match(scan, { problem: { label: 'unavailable.uploadsBusy' }, status: 503, quota: { remaining: 10 } });
  t.match(rows.at(-1), { id: scan.scanId, userId: 'a', status: 503 });
});

t.test('an answer that can not be dealt with is the 500 of its own scan alone', async (t) => {
  const [own, early] = ['own turn', 'turn of another'].map((text) => new PieceScan(bytes('a', Buffer.from(text))));
  if (own === undefined || early === undefined) throw new Error('There are two');
  bug = new Error('a bug');
  const before = { refunds, rows: rows.length };
  own.onAdmission(admission());
  await own.answered;
  early.begin('a');
  // Nothing of this is asynchronous: its answer is taken while another request asks whether it would be refused.
  const endMs = performance.now() + 10_000;
  while (!early.isDecided && performance.now() < endMs) pool.refusal('b', 1);
  bug = null;
  t.equal(early.stage, 'admitting');
  early.onAdmission(admission());
  await early.answered;
  for (const scan of [own, early]) {
    t.match(scan, {
      problem: Error('a bug'),
      verdict: null,
      failure: 'internal',
      status: 500,
      quota: { remaining: 10 },
    });
  }
  t.equal(refunds, before.refunds + 2);
  t.match(rows.slice(before.rows), [{ status: 500 }, { status: 500 }]);
  t.equal(memory.lentBytes, 0);
});

t.test('a bug in the end of a scan that is over already ends the process, after the answers of others', async (t) => {
  const [over, other] = ['over already', 'of somebody else'].map(
    (text) => new PieceScan(bytes('a', Buffer.from(text))),
  );
  if (over === undefined || other === undefined) throw new Error('There are two');
  const isEnding = once(process, 'uncaughtException');
  bug = new Error('a bug');
  over.begin('a');
  over.drop();
  other.begin('a');
  const endMs = performance.now() + 10_000;
  while (!other.isDecided && performance.now() < endMs) pool.refusal('b', 1);
  bug = null;
  t.match(other.problem, { message: 'a bug' });
  t.match(await isEnding, [{ message: 'a bug' }]);
  t.equal(over.stage, 'gone');
});
