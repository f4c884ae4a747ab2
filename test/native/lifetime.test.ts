// Processes that end at each stage of the engine's life: none crashes, none hangs, none says a word on stderr.
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { temporaryFolder } from '../fixtures/folder.js';
import { bodySignature, databaseFolder } from './engine.js';

const program = fileURLToPath(new URL('./life-stages.js', import.meta.url));
const LONGEST_MS = 120_000;
const TIMES = 3;

const quiet = [
  'before anything is loaded',
  'when a load begins',
  'while signatures are read',
  'while signatures are compiled',
  'when a load has ended',
  'by itself after a load',
  'right after a scan',
  'while a thread scans',
  'while a thread scans and another engine loads',
  'while a replaced engine waits for its last scan',
  'with a thread that ends while it loads',
  'with a thread that ends while it polls',
];

async function live(stage: string, databases: string, temporary: string) {
  const child = spawn(process.execPath, [program, stage, databases, temporary], {
    stdio: ['ignore', 'ignore', 'pipe'],
    // What is used after it was freed is nothing that works by chance.
    env: { ...process.env, MALLOC_PERTURB_: '165' },
    timeout: LONGEST_MS,
  });
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal }));
  });
  const [stderr, { code, signal }] = await Promise.all([text(child.stderr), ended]);
  return { code, signal, stderr };
}

function largeDatabase(t: { teardown(undo: () => void): void }): string {
  const lines = Array.from({ length: 40_000 }, (_, i) => bodySignature(`Test.N${i}`, `mark number ${i} of this test`));
  return databaseFolder(t, { 'a.ndb': lines.join('') });
}

for (const stage of quiet) {
  t.test(`a process that ends ${stage} ends well`, async (t) => {
    const databases = largeDatabase(t);
    for (let round = 0; round < TIMES; round += 1) {
      t.same(await live(stage, databases, temporaryFolder(t)), { code: 0, signal: null, stderr: '' });
    }
  });
}

t.test('an uncaught error while an engine loads is what the process ends of', async (t) => {
  const { code, signal, stderr } = await live(
    'by an uncaught error while it loads',
    largeDatabase(t),
    temporaryFolder(t),
  );
  t.same({ code, signal }, { code: 1, signal: null });
  t.match(stderr, /on purpose/);
});

t.test('what libclamav complains of does not reach stderr', async (t) => {
  const databases = databaseFolder(t, { 'a.ndb': 'not a signature\n' });
  const { stderr } = await live('by itself after a load', databases, temporaryFolder(t));
  t.match(stderr, /EngineLoadError/);
  t.notMatch(stderr, /LibClamAV (Error|Warning)/);
});
