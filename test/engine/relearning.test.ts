// A service with gates that hit clean content loads its signatures again by itself, now and then, and without these gates.
import { EventEmitter, once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { gateStatistics, scanBuffer } from '../../src/engine/clamav/addon.js';
import type { SignatureEvent } from '../../src/engine/engine.js';
import { loadSignatures, type SignatureOptions } from '../../src/engine/signatures.js';
import { databaseFolder, temporaryFolder } from '../native/engine.js';

// Clean content has none of them, and each is rare enough to be a gate alone.
const PARTS = ['Xk2#qZ9!vWaJ0&bL~eRn', 'Zm7$sH4@wC6=dQfG1*iUoKy', 'Yp5%rT8&uB3~cEhF2+gNxSl'];
const LOOK_MS = 20;
const NEVER_MS = 10 * 60_000;
const SCANS_MIN = 20;

async function run(t: Test, options: Partial<SignatureOptions>) {
  const subsignatures = PARTS.map((text) => Buffer.from(text).toString('hex')).join(';');
  const folder = databaseFolder(t, { 'a.ldb': `Test.A;Engine:81-255,Target:0;0&1&2;${subsignatures}\n` });
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
  return { events, emitter };
}

/** Which part is the gate of the engine that serves: the one that takes a second look. */
function gateNow(): string | undefined {
  return PARTS.find((part) => {
    const before = gateStatistics()?.secondLooks;
    scanBuffer(Buffer.from(part));
    return gateStatistics()?.secondLooks !== before;
  });
}

function scanCleanly(text: string): void {
  for (let count = 0; count < SCANS_MIN; count += 1) scanBuffer(Buffer.from(text));
}

t.test(
  'a gate that hits clean content is given up without anybody asking, and the next one not before its time',
  async (t) => {
    const relearning = { lookMs: LOOK_MS, apartMs: NEVER_MS, scansMin: SCANS_MIN };
    const { emitter, events } = await run(t, { relearning });
    const first = gateNow() ?? '';
    const loaded = once(emitter, 'loaded');
    scanCleanly(first);
    await loaded;
    t.match(
      events.find(({ kind }) => kind === 'noise'),
      { share: 21 / 22 },
    );
    const second = gateNow() ?? '';
    t.not(second, first);
    t.ok(second);
    t.equal(scanBuffer(Buffer.from(PARTS.join(' '))).virusName, 'Test.A.UNOFFICIAL');

    scanCleanly(second);
    await pause(5 * LOOK_MS);
    t.equal(events.filter(({ kind }) => kind === 'noise').length, 1, 'contents can make few loads');
    t.equal(gateNow(), second);
  },
);

t.test('of such loads there are so many in a day', async (t) => {
  const relearning = { lookMs: LOOK_MS, apartMs: 0, loadsADay: 2, scansMin: SCANS_MIN };
  const { emitter, events } = await run(t, { relearning });
  for (let load = 0; load < 2; load += 1) {
    const loaded = once(emitter, 'loaded');
    scanCleanly(gateNow() ?? '');
    await loaded;
  }
  const last = gateNow() ?? '';
  t.ok(last);
  scanCleanly(last);
  await pause(5 * LOOK_MS);
  t.equal(events.filter(({ kind }) => kind === 'noise').length, 2);
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
