// A service with gates that hit clean content loads its signatures again by itself, now and then, and without these gates.
import { EventEmitter, once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { gateStatistics, scanBuffer, windowCounts } from '../../src/engine/clamav/addon.js';
import type { SignatureEvent } from '../../src/engine/engine.js';
import { TRAFFIC_NOISE } from '../../src/engine/loading.js';
import { loadSignatures, type SignatureOptions } from '../../src/engine/signatures.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { databaseFolder } from '../native/engine.js';

// Clean content has none of them, and each is rare enough to be a gate alone.
const PARTS = ['Xk2#qZ9!vWaJ0&bL~eRn', 'Zm7$sH4@wC6=dQfG1*iUoKy', 'Yp5%rT8&uB3~cEhF2+gNxSl'];
const LOOK_MS = 20;
const NEVER_MS = 10 * 60_000;
const SCANS_MIN = 20;

function signature(name: string, parts: readonly string[]): string {
  const subsignatures = parts.map((text) => Buffer.from(text).toString('hex')).join(';');
  return `${name};Engine:81-255,Target:0;${parts.map((_, index) => index).join('&')};${subsignatures}\n`;
}

async function run(t: Test, options: Partial<SignatureOptions>) {
  const folder = databaseFolder(t, { 'a.ldb': signature('Test.A', PARTS) });
  const emitter = new EventEmitter();
  const events: SignatureEvent[] = [];
  const signatures = loadSignatures({
    directories: [folder],
    gatesDirectory: temporaryFolder(t),
    scanTimeoutMs: 60_000,
    pollMs: NEVER_MS,
    onEvent(event) {
      events.push(event);
      emitter.emit(event.kind, event);
    },
    ...options,
  });
  // What looks for noise doesn't keep a process alive.
  const alive = setInterval(() => undefined, NEVER_MS);
  t.teardown(async () => {
    clearInterval(alive);
    await signatures.stop();
  });
  await signatures.ready();
  return { events, emitter, folder, signatures };
}

/** Which part is the gate of the engine that serves: the one that takes a second look. */
function gateNow(): string | undefined {
  return PARTS.find((part) => {
    const before = gateStatistics()?.secondLooks;
    scanBuffer(Buffer.from(part));
    return gateStatistics()?.secondLooks !== before;
  });
}

/** Another content each time. */
function scanCleanly(text: string): void {
  for (let count = 0; count < SCANS_MIN; count += 1) scanBuffer(Buffer.from(`${count} ${text}`));
}

/** So that it is worth a load: its windows are listed then, and those of as many scans are counted. */
async function waste(text: string): Promise<void> {
  scanCleanly(`first ${text}`);
  while (windowCounts() === null) await pause(LOOK_MS);
  // It is known a moment later how many scans there were before.
  await pause(LOOK_MS);
  scanCleanly(`then ${text}`);
}

t.test(
  'a gate that hits clean content is given up without anybody asking, and the next one not before its time',
  async (t) => {
    const relearning = { lookMs: LOOK_MS, apartMs: NEVER_MS, scansMin: SCANS_MIN };
    const { emitter, events } = await run(t, { relearning });
    const first = gateNow() ?? '';
    const loaded = once(emitter, 'loaded');
    await waste(first);
    await loaded;
    t.match(
      events.find(({ kind }) => kind === 'noise'),
      { share: 41 / 42 },
    );
    const second = gateNow() ?? '';
    t.not(second, first);
    t.ok(second);
    t.equal(scanBuffer(Buffer.from(PARTS.join(' '))).virusName, 'Test.A.UNOFFICIAL');

    for (const turn of ['one', 'two']) {
      scanCleanly(`${turn} ${second}`);
      await pause(5 * LOOK_MS);
    }
    t.equal(events.filter(({ kind }) => kind === 'noise').length, 1, 'contents can make few loads');
    t.equal(gateNow(), second);
  },
);

t.test('of such loads there are so many in a day', async (t) => {
  const relearning = { lookMs: LOOK_MS, apartMs: 0, loadsADay: 2, scansMin: SCANS_MIN };
  const { emitter, events } = await run(t, { relearning });
  for (let load = 0; load < 2; load += 1) {
    const loaded = once(emitter, 'loaded');
    await waste(gateNow() ?? '');
    await loaded;
  }
  const last = gateNow() ?? '';
  t.ok(last);
  for (const turn of ['one', 'two']) {
    scanCleanly(`${turn} ${last}`);
    await pause(5 * LOOK_MS);
  }
  t.equal(events.filter(({ kind }) => kind === 'noise').length, 2);
});

t.test('what lies beside a gate is learned with it, and holds for signatures that come later', async (t) => {
  // So often that it looks again before the load has begun that it has asked for.
  const relearning = { lookMs: 1, apartMs: 0, scansMin: SCANS_MIN };
  const { emitter, events, folder, signatures } = await run(t, { relearning });
  const first = gateNow() ?? '';
  const other = PARTS.find((part) => part !== first) ?? '';
  const rest = PARTS.find((part) => part !== first && part !== other) ?? '';
  const loaded = once(emitter, 'loaded');
  await waste(`${first} ${other}`);
  await loaded;
  t.equal(gateNow(), rest, 'what would have hit as often does not take the place of the gate');

  writeFileSync(join(folder, 'a.ldb'), signature('Test.B', [other, rest, first]) + signature('Test.C', [first, rest]));
  await signatures.reload();
  t.equal(gateNow(), rest);
  t.equal(scanBuffer(Buffer.from(PARTS.join(' '))).virusName, 'Test.B.UNOFFICIAL');
  t.equal(events.filter(({ kind }) => kind === 'noise').length, 1);
});

t.test('where windows can not be listed the log says so, and gates alone are learned', async (t) => {
  const relearning = { lookMs: LOOK_MS, apartMs: 0, scansMin: SCANS_MIN };
  const { emitter, events, folder } = await run(t, { relearning });
  const first = gateNow() ?? '';
  const other = PARTS.find((part) => part !== first) ?? '';
  const [warned, loaded] = [once(emitter, 'warning'), once(emitter, 'loaded')];
  renameSync(folder, `${folder}.away`);
  scanCleanly(`first ${first} ${other}`);
  t.match(await warned, [{ message: /^Windows are not counted, gates alone are: .*ENOENT/ }]);
  renameSync(`${folder}.away`, folder);
  t.equal(windowCounts(), null);
  await pause(LOOK_MS);
  scanCleanly(`then ${first} ${other}`);
  await loaded;
  t.not(gateNow(), first);
  t.equal(events.filter(({ kind }) => kind === 'noise').length, 1);
});

t.test('what is learned by its windows is not learned once more as a gate', async (t) => {
  const { signatures } = await run(t, { pollMs: 0 });
  scanCleanly(gateNow() ?? '');
  const { gates } = await signatures.ready();
  t.ok(await gates?.learn(TRAFFIC_NOISE));
  t.equal(await gates?.learn(TRAFFIC_NOISE), 0);
});

t.test('one content that is scanned again and again teaches nothing', async (t) => {
  const relearning = { lookMs: LOOK_MS, apartMs: 0, scansMin: SCANS_MIN };
  const { events, signatures } = await run(t, { relearning });
  const gate = gateNow() ?? '';
  for (let count = 0; count < 2 * SCANS_MIN; count += 1) scanBuffer(Buffer.from(`the same ${gate}`));
  await pause(5 * LOOK_MS);
  t.equal(events.filter(({ kind }) => kind === 'noise').length, 0);
  await signatures.reload();
  t.equal(gateNow(), gate);
});

t.test('few scans say nothing', async (t) => {
  const { events } = await run(t, { relearning: { lookMs: LOOK_MS, apartMs: 0, scansMin: 10 * SCANS_MIN } });
  scanCleanly(gateNow() ?? '');
  await pause(5 * LOOK_MS);
  t.equal(events.filter(({ kind }) => kind === 'noise').length, 0);
});

t.test('where signatures are loaded at the start only, so are gates', async (t) => {
  const { events } = await run(t, { pollMs: 0, relearning: { lookMs: LOOK_MS, apartMs: 0, scansMin: SCANS_MIN } });
  scanCleanly(gateNow() ?? '');
  await pause(5 * LOOK_MS);
  t.equal(events.filter(({ kind }) => kind === 'noise').length, 0);
});
