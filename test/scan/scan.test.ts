// The scan without any protocol: a submission of bytes in, an outcome out, and what is known of one that fails.
import { createHash } from 'node:crypto';
import t from 'tap';
import { loadSignatures } from '../../src/engine/signatures.js';
import { startPool } from '../../src/engine/threads/pool.js';
import { Failure } from '../../src/errors.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { createUploadMemory } from '../../src/scan/memory/memory.js';
import { openReception } from '../../src/scan/reception.js';
import { type ScanOutcome, type ScanParts, scanSubmission } from '../../src/scan/scan.js';
import type { Sent, Submission, Unsent } from '../../src/scan/submission.js';
import { createVerdictCache } from '../../src/scan/verdicts/cache.js';
import { createKnownVerdicts } from '../../src/scan/verdicts/known.js';
import { zip } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';

const MIB = 1024 * 1024;
const memory = createUploadMemory({ budgetBytes: 64 * MIB, reserveShare: 0.25, waitMs: 10_000, use: 'uploads' });
const signatures = loadSignatures({ directories: [ownSignaturesDirectory], scanTimeoutMs: 10_000 });
const pool = startPool({ threads: 1, queueLimit: 10, scanTimeoutMs: 10_000, encryptedArchives: 'reject' });
t.teardown(async () => {
  await pool.stop();
  await signatures.stop();
});
const parts = {
  pool,
  signatures,
  isRefused: () => false,
  known: createKnownVerdicts({ cache: createVerdictCache({ limitBytes: MIB }), shared: null, scope: 'shared' }),
  downloadMemory: memory,
  downloads: { fetch: () => Promise.reject(new Failure('downloadFailed', 'the origin took too long')) },
};

function submission(receive: () => Promise<Sent | Unsent>): Submission {
  const { signal } = new AbortController();
  return {
    account: 'a',
    requestId: 'r',
    isGone: () => false,
    onGone: () => undefined,
    signal: () => signal,
    receive: (onReceived) => void receive().then(onReceived),
  };
}

function outcomeOf(one: Submission, parts: ScanParts): Promise<ScanOutcome> {
  return new Promise((resolve) => scanSubmission(one, parts, resolve));
}

/** As clamd or ICAP would hand it over: pieces, and their end. */
function bytes(filename: string, content: Uint8Array, pieceBytes = 7): Submission {
  return submission(
    () =>
      new Promise((resolve) => {
        const reception = openReception({
          memory,
          account: 'a',
          limitBytes: content.length,
          source: { hold: () => undefined, goOn: () => undefined },
          onWhole: (received) => resolve({ kind: 'file', filename, ...received }),
          onFailed: (error) => resolve({ kind: 'unsent', error, filename, isWhole: false }),
        });
        for (let at = 0; at < content.length; at += pieceBytes) {
          reception.step(() => reception.append(content.subarray(at, at + pieceBytes)));
        }
        reception.step(reception.end);
      }),
  );
}

function factsOf(content: Uint8Array) {
  return { sizeBytes: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}

t.test('until the engine is loaded nothing is received', async (t) => {
  const unasked = submission(() => Promise.reject(new Error('It was asked for its bytes')));
  t.match(await outcomeOf(unasked, parts), {
    kind: 'unscanned',
    error: { label: 'unavailable.engineLoading' },
    isWhole: false,
    content: null,
  });
  await signatures.ready();
});

t.test('a content has its verdict, the second time the remembered one', async (t) => {
  const content = eicar();
  const verdict = { kind: 'infected' };
  const first = await outcomeOf(bytes('a.com', content), parts);
  t.match(first, { kind: 'scanned', filename: 'a.com', extension: 'com', content: factsOf(content), verdict });
  t.match(first, { looked: 'now' });
  t.match(await outcomeOf(bytes('b', content), parts), { looked: 'for the account', durationMs: 0, verdict });
});

t.test('of a scan that fails all is known that its history needs', async (t) => {
  const content = zip([{ name: 'secret', content: Buffer.from('secret'), encrypted: true }]);
  const outcome = await outcomeOf(bytes('secret.zip', content), parts);
  t.match(outcome, {
    kind: 'unscanned',
    error: { label: 'scanIncomplete' },
    isWhole: true,
    filename: 'secret.zip',
    content: factsOf(content),
  });
  t.ok(outcome.durationMs > 0);
});

t.test('an empty content, a URL that is not served, and what nobody foresaw are outcomes too', async (t) => {
  const empty = await outcomeOf(bytes('empty', Buffer.alloc(0)), parts);
  t.match(empty, { error: { label: 'fileEmpty' }, filename: 'empty', isWhole: false, content: null });
  const url = submission(async () => ({ kind: 'url', url: 'http://files.example/a/report.pdf?x=1' }));
  const away = await outcomeOf(url, parts);
  t.match(away, { error: { label: 'downloadFailed' }, filename: 'report.pdf', isWhole: true, content: null });
  const bug = new Error('a bug');
  t.match(
    await outcomeOf(
      {
        ...url,
        receive() {
          throw bug;
        },
      },
      parts,
    ),
    { kind: 'unscanned', error: bug },
  );
  t.equal(memory.lentBytes, 0, 'no memory is left behind');
});
