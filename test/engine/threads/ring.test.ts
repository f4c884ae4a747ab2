// Who owns a slot of the ring: every interleaving of the atomic steps of both sides, and two real threads at full speed. How a thread sleeps and is woken: no change
// of the word is slept over, by the addon and without it.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import {
  ASLEEP,
  ENDED,
  NO_SLOT,
  ServingRing,
  SLOTS,
  sleeper,
  ThreadRing,
  TURN,
  wakeThread,
} from '../../../src/engine/threads/ring.js';
import { processAddon } from '../../../src/process-addon.js';

/** Thrown where a side has used up the steps that it was given. */
class OutOfSteps extends Error {}

/** What both sides touch: the words, and what is in the slots. */
interface Shared {
  readonly words: Int32Array;
  /** The scan that was written into each slot, and whether there is an answer to it. */
  readonly slots: { scan: number; isAnswered: boolean; writer: string }[];
}

/** What a side does: an atomic step at a time, by the code of the service. */
type Program = (steps: Steps) => void;

interface Steps {
  readonly words: Int32Array;
  /** A read or a write of a slot, which is no atomic step, but one at which the other side may come between. */
  touch<T>(act: (shared: Shared) => T): T;
}

/**
 * The sides can't stand still in the middle of a function. So for every further step a side runs anew from its beginning, and gets the
 * recorded results of its steps before. What it does depends on nothing else.
 */
function runSteps(program: Program, history: unknown[], shared: Shared): 'more' | 'over' {
  let at = 0;
  function step<T>(act: () => T): T {
    if (at < history.length) return history[at++] as T;
    if (at > history.length || isTaken) throw new OutOfSteps();
    isTaken = true;
    const result = act();
    history.push(result);
    at += 1;
    return result;
  }
  let isTaken = false;
  // Only what the ring uses: each is a step.
  const stepped = {
    load: (words: Int32Array, index: number) => step(() => words[index] ?? 0),
    store: (words: Int32Array, index: number, value: number) => step(() => (words[index] = value)),
    compareExchange: (words: Int32Array, index: number, expected: number, replacement: number) =>
      step(() => {
        const was = words[index] ?? 0;
        if (was === expected) words[index] = replacement;
        return was;
      }),
  };
  const atomics = Object.getOwnPropertyDescriptor(globalThis, 'Atomics') ?? {};
  Object.defineProperty(globalThis, 'Atomics', { ...atomics, value: stepped });
  try {
    program({ words: shared.words, touch: (act) => step(() => act(shared)) });
    return 'over';
  } catch (error) {
    if (error instanceof OutOfSteps) return 'more';
    throw error;
  } finally {
    Object.defineProperty(globalThis, 'Atomics', atomics);
  }
}

interface World {
  readonly shared: Shared;
  readonly histories: [unknown[], unknown[]];
}

function copyOf({ shared, histories }: World): World {
  return {
    shared: { words: shared.words.slice(), slots: shared.slots.map((slot) => ({ ...slot })) },
    histories: [[...histories[0]], [...histories[1]]],
  };
}

/** Runs all interleavings; worlds that are equal, with equal pasts of both sides, are run on once. Returns how many ended. */
function explore(programs: readonly [Program, Program], start: World, atEnd: (world: World) => void): number {
  const seen = new Set<string>();
  let ends = 0;
  const open = [start];
  for (let world = open.pop(); world !== undefined; world = open.pop()) {
    let isOver = true;
    for (const side of [0, 1] as const) {
      const next = copyOf(world);
      const before = next.histories[side].length;
      runSteps(programs[side], next.histories[side], next.shared);
      if (next.histories[side].length === before) continue;
      isOver = false;
      const key = JSON.stringify([[...next.shared.words], next.shared.slots, next.histories]);
      if (seen.has(key)) continue;
      seen.add(key);
      open.push(next);
    }
    if (!isOver) continue;
    ends += 1;
    atEnd(world);
  }
  return ends;
}

type Move = 'post' | 'takeBack' | 'collect';

/** The serving side does the moves in this order; scans that are taken back, and answers that are taken, are noted down. */
function serving(moves: readonly Move[], notes: { takenBack: number[]; collected: number[] }): Program {
  return ({ words, touch }) => {
    const side = new ServingRing(words);
    const posted: number[] = [];
    notes.takenBack = [];
    notes.collected = [];
    let scans = 0;
    for (const move of moves) {
      if (move === 'post') {
        if (!side.hasRoom()) continue;
        const scan = ++scans;
        const at = side.freeSlot;
        touch(({ slots }) => {
          const slot = slots[at];
          if (slot === undefined || slot.writer === 'thread') throw new Error('written to while the thread has it');
          Object.assign(slot, { scan, isAnswered: false });
        });
        posted.push(scan);
        side.post();
      } else if (move === 'takeBack') {
        if (side.takeBack()) notes.takenBack.push(posted.pop() ?? -1);
      } else {
        const at = side.takeEnded();
        if (at === NO_SLOT) continue;
        const scan = posted.shift();
        touch(({ slots }) => {
          if (slots[at]?.scan !== scan || slots[at]?.isAnswered !== true)
            throw new Error('not the answer to this scan');
        });
        notes.collected.push(scan ?? -1);
      }
    }
  };
}

/** The thread scans what it finds, and looks so many times. */
function scanning(looks: number, notes: { scanned: number[] }): Program {
  return ({ words, touch }) => {
    const side = new ThreadRing(words);
    notes.scanned = [];
    for (let look = 0; look < looks; look += 1) {
      const at = side.begin();
      if (at === NO_SLOT) continue;
      const scan = touch(({ slots }) => {
        const slot = slots[at];
        if (slot === undefined || slot.isAnswered || slot.writer !== '') throw new Error('begun twice');
        slot.writer = 'thread';
        return slot.scan;
      });
      touch(({ slots }) => {
        const slot = slots[at];
        if (slot?.scan !== scan) throw new Error('changed while the thread has it');
        Object.assign(slot, { isAnswered: true, writer: '' });
      });
      notes.scanned.push(scan);
      side.end();
    }
  };
}

const scripts: readonly (readonly Move[])[] = [
  ['post', 'collect', 'post', 'collect', 'collect'],
  ['post', 'post', 'collect', 'post', 'collect', 'collect'],
  ['post', 'post', 'takeBack', 'post', 'collect', 'collect'],
  ['post', 'takeBack', 'post', 'takeBack', 'post', 'collect'],
  ['post', 'post', 'takeBack', 'takeBack', 'post', 'post', 'collect'],
  ['post', 'post', 'collect', 'takeBack', 'post', 'collect', 'post'],
];

t.test(
  'in every interleaving each scan is scanned once or taken back, in order, and no slot has two owners',
  async (t) => {
    for (const script of scripts) {
      const left = { takenBack: [] as number[], collected: [] as number[] };
      const right = { scanned: [] as number[] };
      const programs = [serving(script, left), scanning(3, right)] as const;
      const shared = {
        words: new Int32Array(2),
        slots: Array.from({ length: SLOTS }, () => ({ scan: 0, isAnswered: false, writer: '' })),
      };
      const ends = explore(programs, { shared, histories: [[], []] }, (world) => {
        // The notes are those of the last run of each side: made once more from its history.
        for (const side of [0, 1] as const) runSteps(programs[side], world.histories[side], world.shared);
        const { scanned } = right;
        if (scanned.some((scan) => left.takenBack.includes(scan))) throw new Error('scanned and taken back');
        if (new Set(scanned).size !== scanned.length) throw new Error('scanned twice');
        if (scanned.some((scan, index) => index > 0 && scan < (scanned[index - 1] ?? 0)))
          throw new Error('out of order');
        if (left.collected.some((scan, index) => scan !== scanned[index])) throw new Error('another answer');
      });
      t.ok(ends > 0, `${script.join(', ')}: ${ends} ends`);
    }
  },
);

/** On a busy machine the other thread may have no core: who goes on looking keeps it from one. */
const LOOKS_AWAKE = 1_000;

t.test('two threads, 150,000 scans, counters that go round: each answer is that of its scan', async (t) => {
  const memory = new SharedArrayBuffer(64);
  const words = new Int32Array(memory, 0, 2);
  const slots = new Int32Array(memory, 16, 2 * SLOTS);
  const module = new URL('../../../src/engine/threads/ring.js', import.meta.url).href;
  const source = `const { workerData } = require('node:worker_threads');
    import('${module}').then(({ NO_SLOT, ThreadRing, TURN }) => {
      const words = new Int32Array(workerData, 0, 2), slots = new Int32Array(workerData, 16, ${2 * SLOTS});
      const side = new ThreadRing(words);
      for (;;) {
        const at = side.begin();
        if (at === NO_SLOT) { Atomics.wait(words, TURN, side.seen()); continue; }
        const scan = slots[2 * at];
        slots[2 * at + 1] = scan ^ 0x5a5a;
        side.end();
        Atomics.notify(words, ${ENDED});
        if (scan === -1) break;
      }
    });`;
  const worker = new Worker(source, { eval: true, workerData: memory });
  const exit = once(worker, 'exit');
  const side = new ServingRing(words);
  const posted: number[] = [];
  let wrong = 0;
  let takenBack = 0;
  function collect(): void {
    for (let at = side.takeEnded(); at !== NO_SLOT; at = side.takeEnded()) {
      const scan = posted.shift() ?? 0;
      if (slots[2 * at] !== scan || slots[2 * at + 1] !== (scan ^ 0x5a5a)) wrong += 1;
    }
  }
  function collectUntil(isEnough: () => boolean): void {
    for (let look = 1; !isEnough(); look += 1) {
      const ended = Atomics.load(words, ENDED);
      collect();
      if (look > LOOKS_AWAKE && !isEnough()) Atomics.wait(words, ENDED, ended);
    }
  }
  function post(scan: number): void {
    collectUntil(() => side.hasRoom());
    const at = side.freeSlot;
    slots[2 * at] = scan;
    slots[2 * at + 1] = 0;
    posted.push(scan);
    side.post();
    Atomics.notify(words, TURN);
  }
  for (let scan = 1; scan <= 150_000; scan += 1) {
    post(scan);
    if (scan % 3 === 0 && side.takeBack()) {
      takenBack += 1;
      posted.pop();
    }
  }
  post(-1);
  collectUntil(() => posted.length === 0);
  await exit;
  t.equal(wrong, 0);
  t.equal(words[ENDED], (150_001 - takenBack) & 0xffff);
  t.comment(`${takenBack} taken back`);
});

const CHANGES = 20_000;
const PAUSE_EVERY = 50;
const pause = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
/** They take half a second; a thread that only looks by itself would take an hour and a half. */
const PATIENCE_MS = 60_000;
const ring = new URL('../../../src/engine/threads/ring.js', import.meta.url).href;
const loader = new URL('../../../src/process-addon.js', import.meta.url).href;

/** A thread that repeats each change of the word in another one, and sleeps in between. */
function startThread(words: Int32Array, withAddon: boolean, staysAwake: boolean): Worker {
  const code = `
    const { workerData: words } = require('node:worker_threads');
    Promise.all([import(${JSON.stringify(ring)}), import(${JSON.stringify(loader)})]).then(([{ sleeper }, { processAddon }]) => {
      const sleep = sleeper(words, ${staysAwake}, ${withAddon} ? processAddon() : null);
      for (let seen = 0; ; ) {
        const now = Atomics.load(words, ${TURN});
        if (now === seen) { sleep(seen); continue; }
        seen = now;
        Atomics.store(words, ${ENDED}, seen);
        Atomics.notify(words, ${ENDED});
      }
    });
  `;
  return new Worker(code, { eval: true, workerData: words });
}

for (const [how, withAddon, staysAwake] of [
  ['by the addon', true, false],
  ['by the addon, awake at first', true, true],
  ['without it', false, true],
] as const) {
  t.test(`${CHANGES} changes, each of which a thread must see before the next one, ${how}`, async (t) => {
    const words = new Int32Array(new SharedArrayBuffer(64));
    const addon = withAddon ? processAddon() : null;
    t.equal(addon !== null, withAddon);
    const thread = startThread(words, withAddon, staysAwake);
    let slept = 0;
    const begunMs = performance.now();
    for (let change = 1; change <= CHANGES && performance.now() - begunMs < PATIENCE_MS; change += 1) {
      // Often long enough for it to fall asleep, and often about as long as that takes.
      if (change % PAUSE_EVERY === 0) Atomics.wait(pause, 0, 0, (change / PAUSE_EVERY) % 2 === 0 ? 1 : 0.05);
      if (Atomics.load(words, ASLEEP) === 1) slept += 1;
      Atomics.store(words, TURN, change);
      wakeThread(words, addon);
      while (Atomics.load(words, ENDED) !== change) Atomics.wait(words, ENDED, change - 1, 10_000);
    }
    t.equal(Atomics.load(words, ENDED), CHANGES, 'all of them were seen');
    t.ok(slept > 0 && slept < CHANGES, `asleep ${slept} times`);
    const startedMs = performance.now();
    const ended = thread.terminate();
    wakeThread(words, addon);
    await ended;
    t.ok(performance.now() - startedMs < 10_000, 'a sleeping thread ends');
  });
}

t.test(
  'a waker that was held up until the thread is about to sleep again leaves the next one to wake it',
  async (t) => {
    const words = new Int32Array(new SharedArrayBuffer(64));
    let wakes = 0;
    const waking = {
      wakeWord(): void {
        wakes += 1;
      },
      awaitWord: (): boolean => false,
      sleepOnWord: (): void => undefined,
    };
    const sleepOnWord = (): void => {
      wakeThread(words, waking);
      wakes = 0;
      wakeThread(words, waking);
    };
    sleeper(words, true, { ...waking, sleepOnWord })(0);
    t.equal(wakes, 1);
    wakeThread(words, waking);
    t.equal(wakes, 1, 'it is awake');
  },
);

t.test('a thread that stays awake sees a change itself, and sleeps when none has come', async (t) => {
  const words = new Int32Array(new SharedArrayBuffer(64));
  const addon = processAddon();
  if (addon === null) throw new Error('there is no addon');
  let slept = 0;
  const sleepOnWord = (): void => {
    slept += 1;
  };
  const wait = (staysAwake: boolean, seen: number): void => sleeper(words, staysAwake, { ...addon, sleepOnWord })(seen);
  wait(true, 1);
  t.equal(slept, 0, 'it has changed');
  t.equal(Atomics.load(words, ASLEEP), 0, 'and nobody need wake it');
  wait(true, 0);
  t.equal(slept, 1, 'it has not');
  wait(false, 1);
  t.equal(slept, 2, 'a thread that does not stay awake leaves the look to the kernel');
});

t.test('a thread that has stayed awake in vain sleeps at once for a while, for longer each time', async (t) => {
  const words = new Int32Array(new SharedArrayBuffer(64));
  const comes: boolean[] = [];
  let [nowMs, awake] = [1_000, 0];
  const addon = {
    wakeWord: (): void => undefined,
    sleepOnWord: (): void => undefined,
    awaitWord(): boolean {
      awake += 1;
      return comes.shift() ?? false;
    },
  };
  const sleep = sleeper(words, true, addon, () => nowMs);
  /** How often it stays awake in so many milliseconds. */
  const awakeIn = (ms: number): number => {
    awake = 0;
    for (const endMs = nowMs + ms; nowMs < endMs; nowMs += 1) sleep(0);
    return awake;
  };
  t.equal(awakeIn(31), 5, 'after 1, 2, 4, 8 and 16 ms');
  t.equal(awakeIn(10_000), 24, 'after half a second at most');
  nowMs += 500;
  comes.push(true, false, true, false);
  t.equal(awakeIn(4), 4, 'once the word has changed it begins anew');
});
