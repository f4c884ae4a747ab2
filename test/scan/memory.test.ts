// The memory of contents: never over its budget, shared between accounts, nobody stuck in it, nothing left behind.
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { type Failure, Unavailable } from '../../src/errors.js';
import { Content } from '../../src/scan/content.js';
import { UploadMemory } from '../../src/scan/memory/memory.js';
import { until } from '../fixtures/until.js';

const MIB = 1024 * 1024;
const LIMIT = 10 * MIB;
const TOO_MANY = new Unavailable('uploadsBusy');

interface Settings {
  readonly budgetMib: number;
  readonly waitMs?: number;
  readonly ownWaitMs?: number;
  readonly now?: () => number;
}

function memoryOf({ budgetMib, waitMs = 60_000, ownWaitMs = 600_000, now }: Settings): UploadMemory {
  const own = now === undefined ? {} : { now };
  return new UploadMemory({
    budgetBytes: budgetMib * MIB,
    reserveShare: 0.25,
    waitMs,
    ownWaitMs,
    use: 'uploads',
    ...own,
  });
}

/** Pieces of it are what arrives. */
const ARRIVING = new Uint8Array(LIMIT).fill(7);

/** An upload as its receiver would drive it. */
class Upload {
  readonly account: string;
  readonly limitBytes: number;
  readonly content: Content;
  /** Bytes that have arrived. */
  arrived = 0;
  refused: Failure | null = null;

  constructor(memory: UploadMemory, account: string, declaredBytes: number | null) {
    this.account = account;
    this.limitBytes = declaredBytes ?? LIMIT;
    this.content = new Content(memory, { account, limitBytes: LIMIT, expectedBytes: declaredBytes }, this);
  }

  onRoom(): void {
    if (this.used < this.arrived) throw new Error('not all that has arrived is there');
  }

  onNoRoom(reason: Failure): void {
    this.refused = reason;
    this.content.release();
  }

  get block(): Uint8Array {
    return this.content.block;
  }

  /** Bytes of those that have arrived that are in the buffer. */
  get used(): number {
    return this.content.sizeBytes;
  }

  isWaiting(): boolean {
    return this.refused === null && this.used < this.arrived;
  }

  /** True: there was room. */
  arrive(bytes: number): boolean {
    const before = this.arrived;
    this.arrived = Math.min(this.limitBytes, before + bytes);
    this.content.append(ARRIVING.subarray(before, this.arrived));
    return this.refused === null && !this.isWaiting();
  }

  end(): void {
    this.content.release();
  }
}

/** `declaredBytes` null: nothing was. */
function open(memory: UploadMemory, account: string, declaredBytes: number | null): Upload {
  return new Upload(memory, account, declaredBytes);
}

/** Opens one upload after the other and fills it piece by piece, until one of them has to wait. */
function fillWith(memory: UploadMemory, account: string, pieceBytes = 512 * 1024): Upload[] {
  const uploads: Upload[] = [];
  for (;;) {
    const upload = open(memory, account, LIMIT);
    uploads.push(upload);
    while (upload.arrived < LIMIT) if (!upload.arrive(pieceBytes)) return uploads;
  }
}

t.test('a small upload gets its one buffer at once, which is lent again', async (t) => {
  const memory = memoryOf({ budgetMib: 64 });
  for (const [bytes, size] of [
    [1, 16_384],
    [16_385, 32_768],
    [65_536, 65_536],
  ] as const) {
    const upload = open(memory, 'one', bytes);
    t.equal(memory.lentBytes, 0, 'nothing is lent for what is only declared');
    t.ok(upload.arrive(1));
    const block = upload.block;
    t.equal(block.length, size);
    t.ok(upload.arrive(bytes - 1));
    t.equal(upload.block, block);
    upload.end();
    upload.end();
    t.equal(memory.lentBytes, 0, 'a second release changes nothing');
    const next = open(memory, 'two', bytes);
    next.arrive(1);
    t.equal(next.block, block);
    next.end();
  }
});

t.test('a large upload has a few times what has arrived, and never more than it declared', async (t) => {
  const memory = memoryOf({ budgetMib: 512 });
  const upload = open(memory, 'one', 6 * MIB);
  for (let arrived = 100_000; arrived <= 6 * MIB; arrived += 100_000) {
    t.ok(upload.arrive(100_000));
    const size = upload.block.length;
    t.ok(size <= Math.min(8 * MIB, 8 * arrived), `${size} bytes for ${arrived}`);
    t.equal(memory.lentBytes, size);
  }
  t.ok(upload.block.subarray(0, upload.used).every((byte) => byte === 7));
  upload.end();
});

t.test('what is kept for the next content is within the budget, and a block has one content at a time', async (t) => {
  const memory = memoryOf({ budgetMib: 64 });
  const resident = (): number => process.memoryUsage().rss;
  const before = resident();
  // One size after the other would fill the budget for each of them, if the blocks of the others stayed.
  for (const bytes of [16_384, 65_536, 262_144, MIB, 4 * MIB, LIMIT]) {
    const uploads = fillWith(memory, 'one', bytes);
    const full = uploads.filter(({ block }) => block.length > 0);
    const places = new Set(full.map(({ block }) => `${block.byteOffset} of ${block.byteLength}`));
    t.ok(places.size > 0);
    for (const [index, { block }] of full.entries()) block.fill(index);
    t.ok(full.every(({ block }, index) => block[block.length - 1] === (index & 0xff)));
    for (const upload of uploads) upload.end();
    t.equal(memory.lentBytes, 0);
  }
  const grownMib = (resident() - before) / MIB;
  t.ok(grownMib < 64 + 40, `${grownMib.toFixed(0)} MiB more than before`);
});

t.test('an account alone has all but the reserve; what it waits for comes back to it, the oldest first', async (t) => {
  for (const budgetMib of [16, 64, 512]) {
    const memory = memoryOf({ budgetMib });
    const uploads = fillWith(memory, 'one');
    const lent = memory.lentBytes - memory.waitingBytes;
    t.ok(lent <= 0.75 * budgetMib * MIB, `${lent} bytes of ${budgetMib} MiB`);
    t.ok(budgetMib < 64 || lent > 0.55 * budgetMib * MIB, `${lent} bytes of ${budgetMib} MiB`);
    const later = open(memory, 'one', LIMIT);
    t.notOk(later.arrive(100_000));
    t.equal(memory.waiting, 2);
    const waiting = uploads.at(-1);
    uploads[0]?.end();
    t.notOk(waiting?.isWaiting(), 'the older one has room');
    for (const upload of uploads) upload.end();
    t.notOk(later.isWaiting());
    later.end();
    t.equal(memory.lentBytes, 0);
    t.equal(memory.accounts, 0);
  }
});

t.test('small uploads of an account find room beside its large ones', async (t) => {
  const memory = memoryOf({ budgetMib: 64 });
  const large = fillWith(memory, 'one');
  const small = Array.from({ length: 30 }, () => open(memory, 'one', 60_000));
  t.ok(small.every((upload) => upload.arrive(60_000)));
  for (const upload of [...large, ...small]) upload.end();
});

t.test('slow uploads that have declared nothing keep no place for what they could become', async (t) => {
  const memory = memoryOf({ budgetMib: 64 });
  const slow = Array.from({ length: 50 }, () => open(memory, 'one', null));
  for (const upload of slow) t.ok(upload.arrive(10));
  const next = open(memory, 'one', null);
  t.ok(next.arrive(1024));
  for (const upload of [...slow, next]) upload.end();
});

t.test('another account has its content while one has taken all that it may', async (t) => {
  for (const budgetMib of [32, 64, 512]) {
    const memory = memoryOf({ budgetMib });
    const greedy = fillWith(memory, 'greedy');
    for (let round = 0; round < 20; round += 1) {
      const upload = open(memory, `other ${round}`, 2 * MIB);
      t.ok(upload.arrive(2 * MIB));
      upload.end();
    }
    for (const upload of greedy) upload.end();
  }
});

t.test('what comes free goes to the account that has least', async (t) => {
  const memory = memoryOf({ budgetMib: 64 });
  const greedy = [...fillWith(memory, 'greedy'), open(memory, 'greedy', LIMIT)];
  greedy.at(-1)?.arrive(100_000);
  const second = fillWith(memory, 'second');
  t.ok(second.at(-1)?.isWaiting());
  greedy[0]?.end();
  t.notOk(second.at(-1)?.isWaiting());
  for (const upload of [...greedy, ...second]) upload.end();
  t.equal(memory.lentBytes, 0);
  t.equal(memory.waiting, 0);
});

/** Lets the line look at the clock. */
t.test('an account that has more loses what it has kept for longest, when another has waited a second', async (t) => {
  let nowMs = 0;
  const memory = memoryOf({ budgetMib: 32, waitMs: 600_000, now: () => nowMs });
  const greedy = fillWith(memory, 'greedy', 64 * 1024);
  nowMs += 60_000;
  // Both accounts have all of the rest; nobody sends any more.
  const second = fillWith(memory, 'second');
  const waiting = second.at(-1);
  t.ok(waiting?.isWaiting());
  nowMs += 900;
  await delay(250);
  t.equal(memory.ended, 0, 'the others may still end by themselves');
  nowMs += 200;
  await until(() => !waiting?.isWaiting());
  t.equal(waiting?.refused, null);
  t.ok(memory.ended > 0);
  const lost = greedy.filter(({ refused }) => refused !== null);
  t.equal(lost.length, memory.ended);
  t.strictSame(lost[0]?.refused, new Unavailable('memoryNeeded'));
  for (const upload of [...greedy, ...second]) upload.end();
});

t.test('a wait for what other accounts have ends in time', async (t) => {
  let nowMs = 0;
  const memory = memoryOf({ budgetMib: 64, waitMs: 900, now: () => nowMs });
  const held = fillWith(memory, 'one');
  const second = fillWith(memory, 'two');
  const late = second.at(-1);
  if (late === undefined) throw new Error('nobody waits');
  nowMs += 899;
  await delay(250);
  t.ok(late.isWaiting());
  nowMs += 1;
  await until(() => late.refused !== null);
  t.strictSame(late.refused, TOO_MANY);
  for (const upload of [...held, ...second]) upload.end();
  t.equal(memory.lentBytes, 0);
  t.equal(memory.waiting, 0);
});

t.test('a wait for what the own account has ends only when the upload could have ended', async (t) => {
  let nowMs = 0;
  const memory = memoryOf({ budgetMib: 64, waitMs: 900, ownWaitMs: 120_000, now: () => nowMs });
  const held = fillWith(memory, 'one');
  const late = held.at(-1);
  if (late === undefined) throw new Error('nobody waits');
  nowMs += 119_999;
  await delay(250);
  t.ok(late.isWaiting());
  nowMs += 1;
  await until(() => late.refused !== null);
  t.strictSame(late.refused, TOO_MANY);
  for (const upload of held) upload.end();
  t.equal(memory.lentBytes, 0);
});

t.test('64 uploads of 8 MB at once from one account are all received, one behind the other', async (t) => {
  for (const budgetMib of [256, 512]) {
    let nowMs = 0;
    const memory = memoryOf({ budgetMib, waitMs: 15_000, ownWaitMs: 120_000, now: () => nowMs });
    const uploads = Array.from({ length: 64 }, () => open(memory, 'one', 8 * MIB));
    // As much as a socket has at once.
    for (const upload of uploads) upload.arrive(512 * 1024);
    const ended = new Set<Upload>();
    while (ended.size < uploads.length) {
      if (memory.lentBytes > budgetMib * MIB) throw new Error('more than the budget is lent');
      if (uploads.some(({ refused }) => refused !== null)) throw new Error('one is refused');
      const next = uploads.find((upload) => !ended.has(upload) && !upload.isWaiting());
      if (next === undefined) throw new Error('everybody waits');
      while (next.arrived < next.limitBytes && next.arrive(512 * 1024));
      if (next.isWaiting()) continue;
      nowMs += 1_000;
      await new Promise((resolve) => setImmediate(resolve));
      next.end();
      ended.add(next);
    }
    t.equal(memory.lentBytes, 0, `${budgetMib} MiB`);
  }
});

t.test(
  'what waits outside of a content counts as its account’s, within the same bound, and others have room',
  async (t) => {
    const memory = memoryOf({ budgetMib: 64 });
    let pieces = 0;
    while (memory.setAside('one', MIB / 2)) pieces += 1;
    t.equal(pieces, 2 * 46, 'half of the reserve of 16 MiB and the room of the last upload are left');
    t.equal(memory.lentBytes, 46 * MIB);
    t.equal(memory.waitingBytes, 46 * MIB);
    t.ok(memory.setAside('other', MIB));
    memory.takeUp('other', MIB);
    // Each goes into a content, which has room to wait in where it has none to lie in.
    const uploads = Array.from({ length: pieces }, () => {
      memory.takeUp('one', MIB / 2);
      const upload = open(memory, 'one', 8 * MIB);
      upload.arrive(MIB / 2);
      return upload;
    });
    t.equal(uploads.filter(({ refused }) => refused !== null).length, 0);
    for (const upload of uploads) upload.end();
    t.equal(memory.lentBytes, 0);
    t.equal(memory.waitingBytes, 0);
  },
);

t.test('what arrives for those who wait stays bounded: the youngest are refused', async (t) => {
  const memory = memoryOf({ budgetMib: 64 });
  const uploads = fillWith(memory, 'one');
  for (let count = 0; count < 100; count += 1) {
    const upload = open(memory, 'one', LIMIT);
    uploads.push(upload);
    upload.arrive(512 * 1024);
    t.ok(memory.lentBytes <= (0.75 + 0.125) * 64 * MIB);
  }
  const refused = uploads.filter((upload) => upload.refused !== null);
  t.ok(refused.length > 50);
  t.ok(uploads.slice(0, 10).every((upload) => upload.refused === null));
  const other = open(memory, 'two', MIB);
  t.ok(other.arrive(MIB));
  for (const upload of [...uploads, other]) upload.end();
  t.equal(memory.lentBytes, 0);
});

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('open' as const),
      account: fc.constantFrom('a', 'a', 'a', 'b', 'b', 'c', 'd'),
      limitBytes: fc.oneof(fc.constant(LIMIT), fc.integer({ min: 1, max: LIMIT }), fc.integer({ min: 1, max: MIB })),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('arrive' as const),
      which: fc.nat(),
      bytes: fc.oneof(fc.integer({ min: 1, max: 64 * 1024 }), fc.integer({ min: 1, max: 512 * 1024 })),
      times: fc.integer({ min: 1, max: 20 }),
    }),
  },
  fc.record({ kind: fc.constant('end' as const), which: fc.nat() }),
  fc.record({ kind: fc.constant('seal' as const), which: fc.nat() }),
);

t.test('the budget and the reserve hold, and nobody is stuck, whatever arrives and ends', async () => {
  fc.assert(
    fc.property(
      fc.constantFrom(16, 24, 32, 64),
      fc.array(step, { minLength: 20, maxLength: 120 }),
      (budgetMib, steps) => {
        let nowMs = 0;
        const budget = budgetMib * MIB;
        const memory = memoryOf({ budgetMib, now: () => nowMs });
        const uploads = new Set<Upload>();
        const sealed = new Set<Upload>();
        const check = (): void => {
          for (const upload of uploads) if (upload.refused !== null) uploads.delete(upload);
          const lent = new Map<string, number>();
          let all = 0;
          let waiting = 0;
          for (const { account, block, arrived, used } of uploads) {
            const bytes = block.length + arrived - used;
            lent.set(account, (lent.get(account) ?? 0) + bytes);
            all += bytes;
            waiting += arrived - used;
          }
          if (memory.lentBytes !== all)
            throw new Error(`${memory.lentBytes} bytes are said to be lent, and ${all} are`);
          if (memory.waitingBytes !== waiting) throw new Error('other bytes wait');
          if (all > budget) throw new Error(`${all} bytes of ${budget} are lent`);
          for (const [account, bytes] of lent) {
            if (bytes > 0.875 * budget) throw new Error(`${account} has ${bytes} of ${budget} bytes`);
            const buffers = [...uploads].filter((upload) => upload.account === account);
            const inBuffers = buffers.reduce((sum, { block }) => sum + block.length, 0);
            if (inBuffers > 0.75 * budget) throw new Error(`${account} has the reserve`);
          }
          const stuck = [...uploads].filter((upload) => upload.isWaiting());
          if (memory.waiting !== stuck.length) throw new Error(`${memory.waiting} are said to wait`);
          if (stuck.length > 0 && stuck.length === uploads.size) throw new Error('everybody waits');
        };
        const pick = (which: number): Upload | undefined => [...uploads][which % Math.max(1, uploads.size)];
        for (const action of steps) {
          nowMs += 100;
          if (action.kind === 'open') uploads.add(open(memory, action.account, action.limitBytes));
          else {
            const upload = pick(action.which);
            if (upload === undefined) continue;
            if (action.kind === 'end') {
              upload.end();
              uploads.delete(upload);
            } else if (action.kind === 'seal') {
              if (upload.isWaiting()) continue;
              memory.seal(upload.content);
              sealed.add(upload);
            } else if (!sealed.has(upload)) {
              for (let time = 0; time < action.times && !upload.isWaiting() && upload.refused === null; time += 1) {
                upload.arrive(action.bytes);
              }
            }
          }
          check();
        }
        // Those who can, go on to their end: then the others can.
        while (uploads.size > 0) {
          const next = [...uploads].find((upload) => !upload.isWaiting());
          if (next === undefined) throw new Error('nobody can go on');
          if (sealed.has(next) || next.arrived === next.limitBytes) {
            next.end();
            uploads.delete(next);
          } else next.arrive(512 * 1024);
          check();
        }
        return memory.lentBytes === 0 && memory.waiting === 0 && memory.accounts === 0;
      },
    ),
    { numRuns: 50 },
  );
});
