// The queue before the scan threads: fair between accounts by the time they hold threads, small content first within one, bounded, nothing starves.
import fc from 'fast-check';
import t from 'tap';
import { FairQueue } from '../../../src/engine/threads/fair-queue.js';
import type { ThreadScan } from '../../../src/engine/threads/thread-scan.js';
import { openQueue, Scan, scanOf } from './fair-queue-harness.js';

const KIB = 1024;
const MIB = 1024 * KIB;
const CREDIT_MS = 60_000;

t.test('of one account, what came at one time leaves by size', async (t) => {
  const { push, drain } = openQueue(10);
  push('a', 'large', 0, 10 * MIB);
  push('a', 'small', 0, KIB);
  push('a', 'middle', 0, 100 * KIB);
  t.strictSame(drain(), ['small', 'middle', 'large']);
});

t.test('of one account, a large one is passed only by what comes within the time that its size is worth', async (t) => {
  const { push, drain } = openQueue(1000);
  push('a', 'large', 0, 10 * MIB);
  // 10 MiB at 50 KiB for a millisecond.
  push('a', 'just in time', 204);
  for (let ms = 205; ms < 300; ms += 1) push('a', `at ${ms}`, ms);
  t.strictSame(drain(300).slice(0, 3), ['just in time', 'large', 'at 205']);
});

t.test('who has no thread comes before who has one, and then who has used less', async (t) => {
  const { push, shift, end } = openQueue(100);
  for (const name of ['1', '2', '3', '4']) push('many', name, 0);
  t.equal(shift(0), '1');
  t.equal(shift(0), '2', 'alone it may have all threads');
  push('other', 'first', 100);
  push('other', 'second', 100);
  t.equal(shift(100), 'first', 'it has no thread');
  t.equal(shift(150), 'second', 'since it came it has used 50 ms, the other one 100');
  end('many', 200);
  end('many', 200);
  t.equal(shift(200), '3');
  t.equal(shift(200), '4');
  t.equal(shift(200), undefined);
});

t.test('who comes back still owes what he owed, until nobody wants anything', async (t) => {
  const { queue, push, shift, end, drain } = openQueue(100);
  push('slow', 'slow 1', 0);
  push('quick', 'quick 1', 0);
  t.equal(shift(0), 'slow 1');
  end('slow', 7_500);
  push('slow', 'slow 2', 7_500);
  push('quick', 'quick 2', 7_500);
  let nowMs = 7_500;
  for (let serial = 1; serial <= 70; serial += 1) {
    t.match(shift(nowMs), /quick|more/, `turn ${serial}`);
    nowMs += 100;
    push('quick', `more ${serial}`, nowMs);
    end('quick', nowMs);
  }
  drain(nowMs);
  t.equal(queue.active.size, 0);
  push('quick', 'later', nowMs);
  push('slow', 'last', nowMs);
  t.strictSame(drain(nowMs), ['later', 'last'], 'who came first');
});

t.test('nobody is so far behind that the others would stand still for him', async (t) => {
  const { push, shift, begin, end } = openQueue(100);
  // For ten hours one account leaves most of what there is to another one, without ever being gone.
  begin('modest', 0);
  for (let thread = 0; thread < 10; thread += 1) begin('hungry', 0);
  const nowMs = 10 * 3_600_000;
  for (let serial = 0; serial < 30; serial += 1) push('hungry', 'hungry', nowMs);
  for (let serial = 0; serial < 30; serial += 1) push('modest', 'modest', nowMs);
  end('modest', nowMs);
  for (let thread = 0; thread < 10; thread += 1) end('hungry', nowMs);
  // From now on there is one thread, and each scan takes ten seconds.
  const turns: string[] = [];
  for (let second = 0; second < 100; second += 10) {
    const name = shift(nowMs + second * 1_000) ?? '';
    turns.push(name);
    end(name, nowMs + (second + 10) * 1_000);
  }
  t.equal(turns.indexOf('hungry'), 6, turns.join());
});

t.test('a thread beside the set takes the smallest, once the others have been at theirs for long enough', async (t) => {
  const { queue, push, begin } = openQueue(100);
  const room = { left: 10, besideOthers: 4 };
  const next = (spanMs: number): string | undefined => {
    const scan = queue.smallest({ ...room, spanMs }, 0);
    return scan instanceof Scan ? scan.name : undefined;
  };
  begin('a', 0);
  begin('a', 0);
  push('a', 'large', 0, 5 * MIB);
  push('a', 'middle', 0, 500 * KIB);
  t.equal(next(5), undefined, 'half a megabyte can wait for longer');
  t.equal(next(45), 'middle');
  push('a', 'small', 300);
  t.equal(next(4), undefined);
  t.equal(next(5), 'small', 'although the others came long before it');
  t.equal(queue.size, 3, 'it still waits');
  for (const _ of [1, 2]) queue.take(queue.smallest({ ...room, spanMs: 50 }, 0) ?? scanOf(''));
  t.equal(next(1_000), undefined, 'more than one large one of an account would only share the cores');
  push('b', 'other large', 0, 5 * MIB);
  t.equal(next(199), undefined);
  t.equal(next(200), 'other large', 'it has no thread');
});

t.test('of the threads beside the set an account leaves some to others, and more while there are others', async (t) => {
  const { queue, push } = openQueue(1000);
  const take = (account: string, room: { left: number; besideOthers: number }): boolean => {
    push(account, '', 0);
    const scan = queue.smallest({ ...room, spanMs: 1_000 }, 0);
    if (scan !== null) queue.take(scan);
    return scan !== null;
  };
  let busy = 0;
  while (take('a', { left: 16 - busy - 1, besideOthers: 4 })) busy += 1;
  t.equal(busy, 12, 'three quarters of 16');
  const before = busy;
  while (busy < 16 && take('b', { left: 16 - busy - 1, besideOthers: 4 })) busy += 1;
  t.equal(busy - before, 3);
  t.equal(take('c', { left: 16 - busy - 1, besideOthers: 4 }), true, 'the last one for who has none');

  const { queue: other, push: pushOther } = openQueue(1000);
  pushOther('b', '', 0);
  let held = 0;
  for (; held < 16; held += 1) {
    pushOther('a', '', 0);
    const scan = other.smallest({ left: 15 - held, besideOthers: 4, spanMs: 1_000 }, 0);
    if (scan === null) break;
    other.take(scan);
  }
  t.equal(held, 5, 'one of the other, which has no more, and four: that is what one may hold beside others');
});

t.test('an account alone has three quarters of the places, and leaves room for those who come', async (t) => {
  const { queue, push } = openQueue(100);
  const fill = (account: string): number => {
    let count = 0;
    while (push(account, '', 0) === null) count += 1;
    return count;
  };
  t.equal(fill('a'), 75);
  t.equal(push('a', '', 0), 'beyondShare');
  t.equal(fill('b'), 18);
  t.equal(fill('c'), 5);
  t.equal(fill('d'), 1);
  t.equal(fill('e'), 1);
  t.equal(push('f', '', 0), 'full');
  t.equal(queue.size, 100);
  const smallest = openQueue(1);
  t.equal(smallest.push('a', '', 0), null, 'the only place is for anybody');
  t.equal(smallest.push('a', '', 0), 'full');
});

t.test('a scan that lies ahead counts against the limit and may be put back to where it was', async (t) => {
  const { queue, push, shift, end, drain } = openQueue(4);
  for (const name of ['1', '2', '3']) push('many', name, 0);
  t.equal(shift(0), '1');
  const lying = queue.shift(0);
  t.match(lying, { name: '2' });
  if (lying !== null) queue.layAhead(lying);
  t.equal(push('other', 'first', 1), null);
  t.equal(push('another', 'second', 1), null);
  t.equal(push('third', 'none', 1), 'full', 'four wait, one of them at a thread');
  t.equal(queue.accountsWaiting().length, 3);
  if (lying !== null) queue.putBack(lying, 3);
  t.equal(queue.size, 4);
  t.equal(queue.accountsWaiting().length, 3);
  end('many', 5);
  t.strictSame(drain(5), ['first', 'second', '2', '3']);
  t.equal(queue.active.size, 0);
});

t.test('a scan that lay ahead and has begun is its account’s', async (t) => {
  const { queue, push } = openQueue(4);
  push('one', '1', 0);
  const lying = queue.shift(0) ?? scanOf('');
  queue.layAhead(lying);
  queue.settle(lying);
  t.equal(queue.accountsWaiting().length, 0);
  t.equal(queue.active.size, 1);
  t.throws(() => queue.putBack(scanOf('one', '1'), 0), { message: 'This scan neither waits nor runs' });
  queue.end(lying, 1);
  t.equal(queue.active.size, 0);
  t.throws(() => queue.end(lying, 1), 'it has ended');
});

t.test('accounts that are gone are forgotten where there are too many, and who owes something last', async (t) => {
  const { queue, begin, end } = openQueue(10);
  begin('stays', 0);
  begin('owes', 0);
  end('owes', 50_000);
  end('stays', 50_000);
  begin('stays', 50_000);
  for (let serial = 0; serial < 5_000; serial += 1) {
    begin(`one of many ${serial}`, 50_000);
    end(`one of many ${serial}`, 50_000);
  }
  t.ok(queue.accountsKnown <= 1024 + 1, `${queue.accountsKnown} are known`);
});

interface Model {
  readonly waiting: { scan: Scan; dueMs: number }[];
  running: number;
  usedMs: number;
  sequence: number;
}

const lineOf = ({ sizeBytes }: Scan): number => (sizeBytes <= 64 * KIB ? 0 : sizeBytes <= MIB ? 1 : 2);

/** The same rules in a list, without lines, and with everybody charged at every step. */
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
    const made = { waiting: [], running: 0, usedMs, sequence: sequence++ };
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
    // Of each line by size the one that came first, and of these the one that is due first.
    const heads = [0, 1, 2].flatMap((line) => account.waiting.find((one) => lineOf(one.scan) === line) ?? []);
    const [first] = heads.sort((one, other) => one.dueMs - other.dueMs);
    account.running += 1;
    account.sequence = sequence++;
    if (first !== undefined) account.waiting.splice(account.waiting.indexOf(first), 1);
    return first?.scan;
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
      account.waiting.push({ scan, dueMs: atMs + scan.sizeBytes / (50 * KIB) });
      if (account.waiting.length > 1) return null;
      account.usedMs = Math.max(account.usedMs, levelMs);
      account.sequence = sequence++;
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
      const queue = new FairQueue(12);
      const model = createModel(12);
      const scans: Scan[] = [];
      const running: ThreadScan[] = [];
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
          if (scan !== (model.shift() ?? null)) return false;
          if (scan !== null) running.push(scan);
        } else if (kind === 'end') {
          const [scan] = running.splice(which % Math.max(1, running.length), 1);
          if (scan === undefined) continue;
          queue.end(scan, nowMs);
          model.end(scan.account);
        } else {
          const scan = scans[which % Math.max(1, scans.length)];
          if (scan === undefined) continue;
          if (model.remove(scan) !== (scan.state === 'waiting')) return false;
          if (scan.state === 'waiting') queue.remove(scan);
        }
        if (queue.size !== model.size()) return false;
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
          const queue = new FairQueue(1_000);
          const used = accounts.map(() => 0);
          for (const [index, { lanes }] of accounts.entries()) {
            for (let lane = 0; lane < lanes; lane += 1) queue.push(scanOf(String(index), ''), 0);
          }
          const lastTurn = accounts.map(() => 0);
          let longestMs = 0;
          const busy: { untilMs: number; index: number; scan: ThreadScan }[] = [];
          for (let nowMs = 0; nowMs < 400_000; ) {
            while (busy.length < threads) {
              const scan = queue.shift(nowMs) ?? scanOf('');
              const index = Number(scan.account);
              longestMs = Math.max(longestMs, nowMs - (lastTurn[index] ?? 0));
              lastTurn[index] = nowMs;
              busy.push({ untilMs: nowMs + (accounts[index]?.durationMs ?? 0), index, scan });
            }
            busy.sort((one, other) => one.untilMs - other.untilMs);
            const [next] = busy.splice(0, 1);
            if (next === undefined) return false;
            nowMs = next.untilMs;
            used[next.index] = (used[next.index] ?? 0) + (accounts[next.index]?.durationMs ?? 0);
            queue.push(scanOf(String(next.index), ''), nowMs);
            queue.end(next.scan, nowMs);
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
