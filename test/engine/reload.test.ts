// Reloads in one process, under scans that never stop: no verdict is lost or bears the wrong epoch, whatever happens to the files.
import { EventEmitter, once } from 'node:events';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { SignatureEvent } from '../../src/engine/engine.js';
import { daysOld, loadSignatures, type SignatureOptions } from '../../src/engine/signatures.js';
import { ScanPool, scanOnce } from '../../src/engine/threads/pool.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { sharedBytes } from '../fixtures/shared-bytes.js';
import { until } from '../fixtures/until.js';
import { bodySignature, databaseFolder } from '../native/engine.js';

const MARK = Buffer.from('a mark of this test');
const SCAN_TIMEOUT_MS = 60_000;
/** Between two scans of a client: reloads get a core, and scans are never a long time apart. */
const PAUSE_MS = 5;

function write(folder: string, name: string, content: string): void {
  writeFileSync(join(folder, `${name}.part`), content);
  renameSync(join(folder, `${name}.part`), join(folder, name));
}

function named(version: number): string {
  return bodySignature(`Test.V${version}`, MARK.toString());
}

/** Hashes that take as long to load as a test can wait for. */
function manyHashes(count: number): string {
  return Array.from({ length: count }, (_, i) => `${i.toString(16).padStart(64, '0')}:${i + 1}:Test.N${i}:73\n`).join(
    '',
  );
}

interface Running {
  readonly signatures: ReturnType<typeof loadSignatures>;
  readonly pool: ScanPool;
  readonly events: SignatureEvent[];
  /** Scans on all threads until it is called again; what was found, by epoch. */
  scanUntil(work: Promise<unknown>): Promise<Map<number, Set<string>>>;
}

async function run(t: Test, folder: string, options: Partial<SignatureOptions> = {}): Promise<Running> {
  const pool = new ScanPool({ threads: 2, queueLimit: 100, scanTimeoutMs: SCAN_TIMEOUT_MS });
  const events: SignatureEvent[] = [];
  const onEvent = (event: SignatureEvent): void => void events.push(event);
  const signatures = loadSignatures({
    directories: [folder],
    scanTimeoutMs: SCAN_TIMEOUT_MS,
    onEvent,
    ...options,
  });
  t.teardown(async () => {
    await pool.stop();
    await signatures.stop();
  });
  await signatures.ready();
  return {
    signatures,
    pool,
    events,
    async scanUntil(work) {
      const found = new Map<number, Set<string>>();
      let done = false;
      const finished = work.finally(() => {
        done = true;
      });
      const client = async (): Promise<void> => {
        while (!done) {
          const { verdict, engine } = await scanOnce(pool, sharedBytes(MARK), MARK.length);
          if (verdict.kind !== 'infected' || engine === null) throw new Error(JSON.stringify(verdict));
          const { epoch } = engine;
          found.set(epoch, (found.get(epoch) ?? new Set()).add(verdict.virusName));
          await pause(PAUSE_MS);
        }
      };
      await Promise.all([client(), client(), client(), client(), finished]);
      return found;
    },
  };
}

t.test('50 reloads under scans, one of five with a broken file', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': named(0), 'b.hsb': manyHashes(40_000) });
  const { signatures, scanUntil, events } = await run(t, folder);
  const names = new Map<number, string>([[(await signatures.ready()).epoch, 'Test.V0.UNOFFICIAL']]);
  const resident: number[] = [];
  const reloads = async (): Promise<void> => {
    let good = 0;
    for (let version = 1; version <= 50; version += 1) {
      const breaks = version % 5 === 0;
      write(folder, 'a.ndb', breaks ? `${named(version)}nonsense\n` : named(version));
      if (!breaks) good = version;
      await signatures.reload();
      const state = signatures.state();
      if (state.kind !== 'ready') throw new Error('not ready');
      t.equal(state.reload.kind, breaks ? 'failed' : 'none', `reload ${version}`);
      names.set(state.engine.epoch, `Test.V${good}.UNOFFICIAL`);
      resident.push(process.memoryUsage.rss() / 2 ** 20);
    }
  };
  const found = await scanUntil(reloads());
  t.ok(found.size > 20, `${found.size} engines have answered`);
  for (const [epoch, of] of found) t.strictSame([...of], [names.get(epoch)], `epoch ${epoch}`);
  t.strictSame(
    [...names.keys()],
    [...names.keys()].sort((a, b) => a - b),
    'epochs only grow',
  );
  t.equal(events.filter((event) => event.kind === 'failed').length, 10);
  // Engines that stayed would be 200 MiB by then; the lowest and not the last, because garbage comes and goes.
  const [early, late] = [Math.max(...resident.slice(10, 20)), Math.min(...resident.slice(40))];
  t.ok(late < early + 64, `${Math.round(early)} MiB at most after 20 reloads, ${Math.round(late)} after 50`);
});

t.test('a file that is replaced while it is read is read again', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': named(0), 'b.hsb': manyHashes(100_000) });
  let isReplaced = true;
  const onProgress = (fraction: number): void => {
    if (isReplaced || fraction === 0) return;
    isReplaced = true;
    write(folder, 'a.ndb', named(2));
  };
  const { signatures, events, scanUntil } = await run(t, folder, { onProgress });
  isReplaced = false;
  write(folder, 'a.ndb', named(1));
  const reloads = async (): Promise<void> => {
    await signatures.reload();
    t.match(events.at(-1), { kind: 'failed', message: /changed while they were read/, serving: true });
    await signatures.reload();
  };
  const found = await scanUntil(reloads());
  t.match(signatures.state(), { kind: 'ready', reload: { kind: 'none' } });
  for (const [epoch, of] of found) t.equal(of.size, 1, `epoch ${epoch} has one answer`);
  const names = [...found.values()].flatMap((of) => [...of]);
  t.notOk(names.includes('Test.V1.UNOFFICIAL'), 'what was replaced while it was read never served');
});

t.test('our own signatures must find the test file, or nothing is loaded', async (t) => {
  const ldb = 'Sluice.Test.EICAR;Engine:81-255,Target:0;0;6e6f742074686174206f6e65\n';
  const own = databaseFolder(t, { 'sluice.ldb': ldb });
  const signatures = loadSignatures({ directories: [own], scanTimeoutMs: SCAN_TIMEOUT_MS });
  t.teardown(() => signatures.stop());
  await t.rejects(signatures.ready(), /self-test failed: the test file is not found/);
  t.match(signatures.state(), { kind: 'failed' });
});

t.test('a first load that failed is made good by the files that come', async (t) => {
  const folder = databaseFolder(t, {});
  const signatures = loadSignatures({ directories: [folder], scanTimeoutMs: SCAN_TIMEOUT_MS, pollMs: 5, settleMs: 5 });
  t.teardown(() => signatures.stop());
  await t.rejects(signatures.ready(), /no signature database/);
  write(folder, 'a.ndb', named(1));
  await until(() => signatures.state().kind === 'ready');
  t.match(signatures.state(), { kind: 'ready', reload: { kind: 'none' } });
});

/** What is reported from the beginning on, and a wait for tries and events. */
function listen() {
  const events: SignatureEvent[] = [];
  const told = new EventEmitter();
  let tries = 0;
  const onEvent = (event: SignatureEvent): void => {
    if (event.kind !== 'warning') events.push(event);
    told.emit('told');
  };
  /** Each load begins with nothing done, and tells it. */
  const onProgress = (fraction: number): void => {
    if (fraction === 0) tries += 1;
    told.emit('told');
  };
  async function until(condition: () => boolean): Promise<void> {
    // The timers of a retry don't keep the process.
    const alive = setInterval(() => undefined, 1000);
    while (!condition()) await once(told, 'told');
    clearInterval(alive);
  }
  return {
    events,
    onEvent,
    onProgress,
    until,
    async moreTries(count: number): Promise<void> {
      const enough = tries + count;
      await until(() => tries >= enough);
    },
  };
}

t.test('a first load that failed is tried again by itself, and reported once for each reason', async (t) => {
  const folder = databaseFolder(t, {});
  const { events, until, moreTries, onEvent, onProgress } = listen();
  const options = { directories: [folder], scanTimeoutMs: SCAN_TIMEOUT_MS, pollMs: 0, retryMs: 2 };
  const signatures = loadSignatures({ ...options, onEvent, onProgress });
  t.teardown(() => signatures.stop());
  await t.rejects(signatures.ready(), /no signature database/);
  await moreTries(3);
  t.match(events, [{ kind: 'failed', message: /no signature database/, serving: false }]);
  t.equal(events.length, 1);
  write(folder, 'a.ndb', 'nonsense\n');
  // A try that was at it sees the file come, which is a reason of its own.
  await until(() => events.some((event) => event.kind === 'failed' && /^Cannot load/.test(event.message)));
  const { length } = events;
  await moreTries(2);
  t.equal(events.length, length, 'another reason is reported, once');
  write(folder, 'a.ndb', named(1));
  await until(() => events.at(-1)?.kind === 'loaded');
  t.match(signatures.state(), { kind: 'ready', engine: { name: 'clamav' }, reload: { kind: 'none' } });
});

t.test('of a load that takes long is said that it goes on, once', async (t) => {
  const folder = databaseFolder(t, { 'a.hsb': manyHashes(20_000) });
  const events: SignatureEvent[] = [];
  const onEvent = (event: SignatureEvent): number => events.push(event);
  const signatures = loadSignatures({ directories: [folder], scanTimeoutMs: SCAN_TIMEOUT_MS, slowMs: 1, onEvent });
  t.teardown(() => signatures.stop());
  await signatures.ready();
  t.match(events, [{ kind: 'warning', message: /^The signatures are still being loaded/ }, { kind: 'loaded' }]);
  t.equal(events.length, 2);
});

t.test('rules that stand in for ClamAV are left as they are by tries that fail', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': 'nonsense\n' });
  const { events, until, moreTries, onEvent, onProgress } = listen();
  const signatures = loadSignatures({
    // Our own rules stand in. They lie apart, so that tries of ClamAV don't wait for rules.
    directories: [folder, ownSignaturesDirectory],
    scanTimeoutMs: SCAN_TIMEOUT_MS,
    retryMs: 2,
    wantsIdentity: true,
    onEvent,
    onProgress,
  });
  t.teardown(() => signatures.stop());
  const { epoch, name, identity } = await signatures.ready();
  t.strictSame([name, identity], ['yara-x', null]);
  // The second one begins when the first one has ended.
  await moreTries(2);
  t.match(events, [{ kind: 'loaded' }, { kind: 'failed', serving: true }]);
  t.equal(events.length, 2);
  t.match(signatures.state(), { kind: 'ready', engine: { epoch, name } });
  write(folder, 'a.ndb', named(1));
  await until(() => events.at(-1)?.kind === 'loaded');
  t.match(signatures.state(), { kind: 'ready', engine: { name: 'clamav', standsInFor: null } });
});

t.test('while something serves, what failed is tried again at doubling distances up to half an hour', async (t) => {
  const folder = databaseFolder(t, {});
  const retryMs = 700_001;
  const timers = mock.method(globalThis, 'setTimeout');
  t.teardown(() => timers.mock.restore());
  const delays = (): unknown[] => {
    const all = timers.mock.calls.map((call) => call.arguments[1]);
    timers.mock.resetCalls();
    return all.filter((delay) => typeof delay === 'number' && delay >= retryMs);
  };
  const signatures = loadSignatures({ directories: [folder], scanTimeoutMs: SCAN_TIMEOUT_MS, retryMs });
  t.teardown(() => signatures.stop());
  await t.rejects(signatures.ready());
  t.strictSame(delays(), [retryMs], 'nothing serves');
  write(folder, 'a.ndb', named(1));
  await signatures.reload();
  t.match(signatures.state(), { kind: 'ready', reload: { kind: 'none' } });
  t.strictSame(delays(), []);
  write(folder, 'a.ndb', 'nonsense\n');
  for (const _ of [1, 2, 3]) await signatures.reload();
  t.match(signatures.state(), { kind: 'ready', reload: { kind: 'failed' } });
  t.strictSame(delays(), [retryMs, 2 * retryMs, 30 * 60_000]);
});

t.test('old daily signatures are warned of', async (t) => {
  const warnings: string[] = [];
  const folder = databaseFolder(t, { 'a.ndb': named(1) });
  const { signatures } = await run(t, folder, {
    onEvent: (event) => {
      if (event.kind === 'warning') warnings.push(event.message);
    },
  });
  const engine = await signatures.ready();
  t.equal(daysOld(engine, Date.now()), null, 'files without a build time have no age');
  const aged = { ...engine, dailyBuiltAt: 1_000_000 };
  t.equal(daysOld(aged, (1_000_000 + 8 * 86_400) * 1000), 8);
  t.strictSame(warnings, []);
});

t.test('a folder that others fill some day counts from then on, and no longer when it is empty again', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': named(0) });
  const parent = temporaryFolder(t);
  const later = join(parent, 'later');
  const { signatures } = await run(t, folder, { optionalDirectories: [later], pollMs: 10, settleMs: 10 });
  const counted = async (count: number): Promise<void> => {
    await until(() => {
      const state = signatures.state();
      return state.kind === 'ready' && state.engine.signatureCount === count;
    });
  };
  await counted(1);
  mkdirSync(later);
  write(later, 'b.ndb', bodySignature('Test.Later', 'another mark of this test'));
  await counted(2);
  rmSync(join(later, 'b.ndb'));
  await counted(1);
});

t.test('that a folder which may have signatures can not be read is said', async (t) => {
  const unreadable = join(temporaryFolder(t), 'no folder');
  writeFileSync(unreadable, '');
  const absent = join(temporaryFolder(t), 'absent');
  const { events } = await run(t, databaseFolder(t, { 'a.ndb': named(0) }), {
    optionalDirectories: [unreadable, absent],
  });
  const said = events.flatMap((event) => (event.kind === 'warning' ? [event.message] : []));
  t.match(said, [/^The signatures in .*no folder are left out: ENOTDIR/]);
  t.equal(said.length, 1);
});
