// The queue before the scan threads: fair between accounts by the time they hold threads, small content first within one, bounded, nothing starves.
import fc from 'fast-check';
import t from 'tap';
import { createFairQueue, type FairQueue } from '../../../src/engine/threads/fair-queue.js';
import type { Origin } from '../../../src/engine/threads/waiting-scans.js';

const KIB = 1024;
const MIB = 1024 * KIB;
const CREDIT_MS = 60_000;

interface Scan extends Origin<Scan> {
  readonly name: string;
}

function scanOf(account: string, name: string, sizeBytes = KIB): Scan {
  return { account, name, sizeBytes, place: null };
}

/** One after the other, each on a thread of its own that is free again at once. */
function drain(queue: FairQueue<Scan>, nowMs = 0): string[] {
  const order: string[] = [];
  for (let scan = queue.shift(nowMs); scan !== undefined; scan = queue.shift(nowMs)) {
    order.push(scan.name);
    queue.end(scan.account, nowMs);
  }
  return order;
}

t.test('of one account, what came at one time leaves by size', async (t) => {
  const queue = createFairQueue<Scan>(10);
  queue.push(scanOf('a', 'large', 10 * MIB), 0);
  queue.push(scanOf('a', 'small', KIB), 0);
  queue.push(scanOf('a', 'middle', 100 * KIB), 0);
  t.strictSame(drain(queue), ['small', 'middle', 'large']);
});

t.test('of one account, a large one is passed only by what comes within the time that its size is worth', async (t) => {
  const queue = createFairQueue<Scan>(1000);
  queue.push(scanOf('a', 'large', 10 * MIB), 0);
  // 10 MiB at 50 KiB for a millisecond.
  queue.push(scanOf('a', 'just in time'), 204);
  for (let ms = 205; ms < 300; ms += 1) queue.push(scanOf('a', `at ${ms}`), ms);
  t.strictSame(drain(queue, 300).slice(0, 3), ['just in time', 'large', 'at 205']);
});

t.test('who has no thread comes before who has one, and then who has used less', async (t) => {
  const queue = createFairQueue<Scan>(100);
  for (const name of ['1', '2', '3', '4']) queue.push(scanOf('many', name), 0);
  t.equal(queue.shift(0)?.name, '1');
  t.equal(queue.shift(0)?.name, '2', 'alone it may have all threads');
  queue.push(scanOf('other', 'first'), 100);
  queue.push(scanOf('other', 'second'), 100);
  t.equal(queue.shift(100)?.name, 'first', 'it has no thread');
  t.equal(queue.shift(150)?.name, 'second', 'since it came it has used 50 ms, the other one 100');
  queue.end('many', 200);
  queue.end('many', 200);
  t.equal(queue.shift(200)?.name, '3');
  t.equal(queue.shift(200)?.name, '4');
  t.equal(queue.shift(200), undefined);
});

t.test('who comes back still owes what he owed, until nobody wants anything', async (t) => {
  const queue = createFairQueue<Scan>(100);
  queue.push(scanOf('slow', 'slow 1'), 0);
  queue.push(scanOf('quick', 'quick 1'), 0);
  t.equal(queue.shift(0)?.name, 'slow 1');
  queue.end('slow', 7_500);
  queue.push(scanOf('slow', 'slow 2'), 7_500);
  queue.push(scanOf('quick', 'quick 2'), 7_500);
  let nowMs = 7_500;
  for (let serial = 1; serial <= 70; serial += 1) {
    t.match(queue.shift(nowMs)?.account, 'quick', `turn ${serial}`);
    nowMs += 100;
    queue.push(scanOf('quick', `more ${serial}`), nowMs);
    queue.end('quick', nowMs);
  }
  drain(queue, nowMs);
  t.equal(queue.accountsActive, 0);
  queue.push(scanOf('quick', 'later'), nowMs);
  queue.push(scanOf('slow', 'last'), nowMs);
  t.strictSame(drain(queue, nowMs), ['later', 'last'], 'who came first');
});

t.test('nobody is so far behind that the others would stand still for him', async (t) => {
  const queue = createFairQueue<Scan>(100);
  // For ten hours one account leaves most of what there is to another one, without ever being gone.
  queue.begin('modest', 0);
  for (let thread = 0; thread < 10; thread += 1) queue.begin('hungry', 0);
  const nowMs = 10 * 3_600_000;
  for (let serial = 0; serial < 30; serial += 1) queue.push(scanOf('hungry', 'hungry'), nowMs);
  for (let serial = 0; serial < 30; serial += 1) queue.push(scanOf('modest', 'modest'), nowMs);
  queue.end('modest', nowMs);
  for (let thread = 0; thread < 10; thread += 1) queue.end('hungry', nowMs);
  // From now on there is one thread, and each scan takes ten seconds.
  const turns: string[] = [];
  for (let second = 0; second < 100; second += 10) {
    const scan = queue.shift(nowMs + second * 1_000);
    turns.push(scan?.name ?? '');
    if (scan !== undefined) queue.end(scan.account, nowMs + (second + 10) * 1_000);
  }
  t.equal(turns.indexOf('hungry'), 6, turns.join());
});

t.test('the account that has lacked a thread longest gets the one that stands in', async (t) => {
  const queue = createFairQueue<Scan>(100);
  queue.begin('holder', 0);
  queue.push(scanOf('holder', 'no'), 0);
  t.equal(queue.lackingSinceMs, null, 'it has one');
  queue.push(scanOf('first', '1'), 10);
  queue.push(scanOf('second', '2'), 20);
  t.equal(queue.lackingSinceMs, 10);
  t.equal(queue.shiftLacking(9, 500), undefined);
  t.equal(queue.shiftLacking(15, 500)?.name, '1');
  t.equal(queue.shiftLacking(15, 500), undefined);
  queue.push(scanOf('first', '3'), 510);
  t.equal(queue.lackingSinceMs, 20);
  queue.end('first', 600);
  t.equal(queue.shiftLacking(700, 700)?.name, '2');
  t.equal(queue.lackingSinceMs, 600, 'since its own thread was free');
  t.equal(queue.shiftLacking(700, 700)?.name, '3');
  t.equal(queue.shiftLacking(700, 700), undefined, 'who has a thread lacks none');
  queue.end('holder', 800);
  t.equal(queue.shiftLacking(800, 800)?.name, 'no');
});

t.test('an account alone has three quarters of the places, and leaves room for those who come', async (t) => {
  const queue = createFairQueue<Scan>(100);
  const fill = (account: string): number => {
    let count = 0;
    while (queue.push(scanOf(account, ''), 0) === null) count += 1;
    return count;
  };
  t.equal(fill('a'), 75);
  t.equal(queue.push(scanOf('a', ''), 0), 'beyondShare');
  t.equal(fill('b'), 18);
  t.equal(fill('c'), 5);
  t.equal(fill('d'), 1);
  t.equal(fill('e'), 1);
  t.equal(queue.push(scanOf('f', ''), 0), 'full');
  t.equal(queue.size, 100);
  const smallest = createFairQueue<Scan>(1);
  t.equal(smallest.push(scanOf('a', ''), 0), null, 'the only place is for anybody');
  t.equal(smallest.push(scanOf('a', ''), 0), 'full');
});

t.test('a scan that is lifted counts against the limit and may be put back to where it was', async (t) => {
  const queue = createFairQueue<Scan>(4);
  for (const name of ['1', '2', '3']) queue.push(scanOf('many', name), 0);
  t.equal(queue.shift(0)?.name, '1');
  const lifted = queue.lift(0);
  t.equal(lifted?.name, '2');
  t.equal(queue.push(scanOf('other', 'first'), 1), null);
  t.equal(queue.push(scanOf('another', 'second'), 1), null);
  t.equal(queue.push(scanOf('third', 'none'), 1), 'full', 'four wait, one of them lifted');
  t.equal(queue.lacks('other'), true);
  t.equal(queue.lacks('many'), false);
  if (lifted !== undefined) queue.putBack(lifted, 3);
  t.equal(queue.size, 4);
  t.equal(queue.lackingSinceMs, 1);
  const alone = queue.lift(3);
  t.equal(alone?.name, 'first', 'it has no thread');
  t.equal(queue.lacks('other'), false);
  if (alone !== undefined) queue.putBack(alone, 3);
  t.equal(queue.lacks('other'), true);
  t.equal(queue.lackingSinceMs, 1, 'it lacks one since it came');
  queue.end('many', 5);
  t.strictSame(drain(queue, 5), ['first', 'second', '2', '3']);
  t.equal(queue.accountsActive, 0);
});

t.test('a lifted scan that has begun is its account’s', async (t) => {
  const queue = createFairQueue<Scan>(4);
  queue.push(scanOf('one', '1'), 0);
  const lifted = queue.lift(0);
  if (lifted !== undefined) queue.settled(lifted);
  t.equal(queue.accountsActive, 1);
  t.throws(() => queue.putBack(scanOf('one', '1'), 0), { message: 'This scan was not lifted' });
  queue.end('one', 1);
  t.equal(queue.accountsActive, 0);
});

t.test('all that waits can be taken out', async (t) => {
  const queue = createFairQueue<Scan>(10);
  queue.begin('a', 0);
  for (const account of ['a', 'b']) queue.push(scanOf(account, account), 0);
  t.strictSame(
    queue.clear().map(({ name }) => name),
    ['a', 'b'],
  );
  t.equal(queue.shift(0), undefined);
  queue.end('a', 0);
  t.equal(queue.accountsActive, 0);
  t.throws(() => queue.end('a', 0), 'it has none');
});

interface Model {
  readonly waiting: { scan: Scan; dueMs: number; sequence: number }[];
  running: number;
  usedMs: number;
  lackingSinceMs: number;
  sequence: number;
}

/** The same rules in a list, without a heap, and with everybody charged at every step. */
function createModel(limit: number) {
  const accounts = new Map<string, Model>();
  const debts = new Map<string, number>();
  let levelMs = 0;
  let sequence = 0;
  let atMs = 0;
  const waits = () => [...accounts].filter(([, { waiting }]) => waiting.length > 0);
  const size = () => waits().reduce((sum, [, { waiting }]) => sum + waiting.length, 0);
  function advance(nowMs: number): void {
    for (const account of accounts.values()) {
      account.usedMs += account.running * (nowMs - atMs);
      levelMs = Math.max(levelMs, account.usedMs - CREDIT_MS);
    }
    atMs = nowMs;
  }
  function enter(name: string): Model {
    const known = accounts.get(name);
    if (known !== undefined) return known;
    if (accounts.size > 0) {
      levelMs = Math.max(levelMs, Math.min(...[...accounts.values()].map(({ usedMs }) => usedMs)));
    }
    const usedMs = Math.max(levelMs, debts.get(name) ?? 0);
    debts.delete(name);
    const made = { waiting: [], running: 0, usedMs, lackingSinceMs: 0, sequence: sequence++ };
    accounts.set(name, made);
    return made;
  }
  function leave(name: string, { waiting, running, usedMs }: Model): void {
    if (waiting.length > 0 || running > 0) return;
    accounts.delete(name);
    if (accounts.size === 0) {
      debts.clear();
      levelMs = 0;
    } else if (usedMs > levelMs) {
      debts.set(name, usedMs);
    }
  }
  function take(account: Model): Scan | undefined {
    account.waiting.sort((one, other) => one.dueMs - other.dueMs || one.sequence - other.sequence);
    account.running += 1;
    account.sequence = sequence++;
    return account.waiting.shift()?.scan;
  }
  return {
    size,
    advance,
    push(scan: Scan): string | null {
      const left = limit - size() - 1;
      if (left < 0) return 'full';
      const own = (accounts.get(scan.account)?.waiting.length ?? 0) + 1;
      if (own > 1 && own > 3 * left) return 'beyondShare';
      const account = enter(scan.account);
      account.waiting.push({ scan, dueMs: atMs + scan.sizeBytes / (50 * KIB), sequence: sequence++ });
      if (account.waiting.length > 1) return null;
      account.usedMs = Math.max(account.usedMs, levelMs);
      account.sequence = sequence++;
      if (account.running === 0) account.lackingSinceMs = atMs;
      return null;
    },
    shift(): Scan | undefined {
      const [first] = waits()
        .map(([, account]) => account)
        .sort(
          (one, other) =>
            Math.min(1, one.running) - Math.min(1, other.running) ||
            one.usedMs - other.usedMs ||
            one.sequence - other.sequence,
        );
      return first === undefined ? undefined : take(first);
    },
    lacking(): number[] {
      return waits()
        .filter(([, { running }]) => running === 0)
        .map(([, { lackingSinceMs }]) => lackingSinceMs);
    },
    remove(scan: Scan): boolean {
      const account = accounts.get(scan.account);
      const index = account?.waiting.findIndex((entry) => entry.scan === scan) ?? -1;
      if (account === undefined || index === -1) return false;
      account.waiting.splice(index, 1);
      leave(scan.account, account);
      return true;
    },
    end(name: string): void {
      const account = accounts.get(name);
      if (account === undefined) throw new Error('It has none');
      account.running -= 1;
      if (account.running === 0) account.lackingSinceMs = atMs;
      leave(name, account);
    },
  };
}

t.test('it behaves as a list does in which everybody is charged at every step', async () => {
  const step = fc.record({
    kind: fc.constantFrom('push' as const, 'push' as const, 'shift' as const, 'end' as const, 'remove' as const),
    account: fc.constantFrom('a', 'b', 'c', 'd'),
    size: fc.nat(20 * MIB),
    // Whole numbers, which add up to the same in any order.
    pauseMs: fc.oneof(fc.constant(0), fc.nat(50), fc.nat(20_000)),
    which: fc.nat(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const queue = createFairQueue<Scan>(12);
      const model = createModel(12);
      const scans: Scan[] = [];
      const running: string[] = [];
      let nowMs = 0;
      for (const { kind, account, size, pauseMs, which } of steps) {
        nowMs += pauseMs;
        model.advance(nowMs);
        if (kind === 'push') {
          const scan = scanOf(account, String(scans.length), size);
          scans.push(scan);
          if (queue.push(scan, nowMs) !== model.push(scan)) return false;
        } else if (kind === 'shift') {
          const scan = queue.shift(nowMs);
          if (scan !== model.shift()) return false;
          if (scan !== undefined) running.push(scan.account);
        } else if (kind === 'end') {
          const [name] = running.splice(which % Math.max(1, running.length), 1);
          if (name === undefined) continue;
          queue.end(name, nowMs);
          model.end(name);
        } else {
          const scan = scans[which % Math.max(1, scans.length)];
          if (scan !== undefined && queue.remove(scan) !== model.remove(scan)) return false;
        }
        const lacking = model.lacking();
        if (queue.size !== model.size()) return false;
        if (queue.lackingSinceMs !== (lacking.length === 0 ? null : Math.min(...lacking))) return false;
      }
      return true;
    }),
    { numRuns: 1000 },
  );
});

t.test(
  'accounts that always want more have the same time, whatever their scans take, and none waits for ever',
  async () => {
    const scans = fc.record({ durationMs: fc.integer({ min: 1, max: 8_000 }), lanes: fc.integer({ min: 4, max: 12 }) });
    fc.assert(
      fc.property(
        fc.array(scans, { minLength: 2, maxLength: 5 }),
        fc.integer({ min: 1, max: 4 }),
        (accounts, threads) => {
          const queue = createFairQueue<Scan>(1_000);
          const used = accounts.map(() => 0);
          for (const [index, { lanes }] of accounts.entries()) {
            for (let lane = 0; lane < lanes; lane += 1) queue.push(scanOf(String(index), ''), 0);
          }
          const lastTurn = accounts.map(() => 0);
          let longestMs = 0;
          const busy: { untilMs: number; index: number }[] = [];
          for (let nowMs = 0; nowMs < 400_000; ) {
            while (busy.length < threads) {
              const index = Number(queue.shift(nowMs)?.account);
              longestMs = Math.max(longestMs, nowMs - (lastTurn[index] ?? 0));
              lastTurn[index] = nowMs;
              busy.push({ untilMs: nowMs + (accounts[index]?.durationMs ?? 0), index });
            }
            busy.sort((one, other) => one.untilMs - other.untilMs);
            const [next] = busy.splice(0, 1);
            if (next === undefined) return false;
            nowMs = next.untilMs;
            used[next.index] = (used[next.index] ?? 0) + (accounts[next.index]?.durationMs ?? 0);
            queue.push(scanOf(String(next.index), ''), nowMs);
            queue.end(String(next.index), nowMs);
          }
          // They differ by what one scan on every thread takes, at most.
          const bound = Math.max(...accounts.map(({ durationMs }) => durationMs)) * (threads + 1);
          return Math.max(...used) - Math.min(...used) <= bound && longestMs <= bound * accounts.length;
        },
      ),
      { numRuns: 100 },
    );
  },
);
