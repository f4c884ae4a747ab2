// A lane: scan threads for contents of about one size, and the queue before them. What small scans need beside long ones is one rule here: `standIn`.
import { performance } from 'node:perf_hooks';
import { Unavailable, type UnavailableReason } from '../../errors.js';
import { CLEAN, readAnswer } from '../verdict.js';
import { FairQueue, LONG_MS } from './fair-queue.js';
import type { ThreadScan, TurnKind } from './thread-scan.js';
import { ThreadSet, type ThreadSetOptions } from './thread-set.js';
import { createWatch, type ThreadSlot, type WatchOptions } from './thread-slot.js';

export interface LaneOptions extends Omit<ThreadSetOptions, 'onIdle' | 'onDied'>, Omit<WatchOptions, 'onGivenUp'> {
  /** Scans that may wait; the next one is refused. An account alone may have three quarters of them. */
  readonly queueLimit: number;
}

const REFUSALS = { full: 'queueFull', beyondShare: 'queueShareFull' } as const;
/** All threads of the set have been at their scans for so long: threads beside it are made ahead, before anything waits. */
const PRESS_MS = 50;
/**
 * How often answers of threads are taken before the bell is heard, so in one turn of the event loop. What all of them ask for next would be one turn, with as many answers in it again:
 * the others wait for its end.
 */
const EARLY_MOST = 16;
/** A scan that waited for more than this share of its deadline had too little left for anybody to blame the content. */
const WAITED_SHARE = 0.3;

export class Lane {
  running = 0;
  readonly queue: FairQueue;
  readonly set: ThreadSet;
  /** Less may run than before. */
  onEnd: (() => void) | null = null;
  readonly #options: LaneOptions;
  readonly #watch: ReturnType<typeof createWatch>;
  #alarm: NodeJS.Timeout | null = null;
  #early = 0;

  constructor(options: LaneOptions) {
    this.#options = options;
    this.queue = new FairQueue(options.queueLimit);
    this.set = new ThreadSet({
      ...options,
      onIdle: () => this.#dispatch(performance.now()),
      onDied: (scan) => this.#fail(scan),
    });
    this.#watch = createWatch({ ...options, onGivenUp: (slot, scan, nowMs) => this.#giveUp(slot, scan, nowMs) });
  }

  get waiting(): number {
    return this.queue.size + this.queue.ahead;
  }

  get standIns(): number {
    return Math.max(0, this.set.busy - this.set.size);
  }

  /** A scan would begin at once. */
  get isFree(): boolean {
    return this.queue.size === 0 && this.set.isFree;
  }

  /** `nowMs`: when it has asked. */
  ask(scan: ThreadScan, nowMs: number): void {
    scan.deadlineMs = nowMs + this.#options.scanTimeoutMs;
    if (this.queue.size === 0 && this.set.isFree) {
      this.queue.begin(scan, nowMs);
      this.#start(scan, 'alone', nowMs);
      return;
    }
    this.#collectEarly();
    const answer = this.queue.push(scan, nowMs);
    if (answer !== null) scan.onRefused(new Unavailable(REFUSALS[answer]));
    // With one behind the scan of each thread it can but wait: the alarm is set, for scans that take long.
    else if (this.queue.ahead === 0 || this.queue.ahead < this.set.busy) this.#dispatch(nowMs);
  }

  /** Why a scan of the account would be refused now; null: it would not. */
  refusal(account: string): UnavailableReason | null {
    this.#collectEarly();
    const answer = this.isFree ? null : this.queue.refusal(account);
    return answer === null ? null : REFUSALS[answer];
  }

  /** The bell is heard once in a turn of the event loop. One that reads thousands of requests takes long, and threads must not wait for its end. */
  #collectEarly(): void {
    if (this.#early === EARLY_MOST) return;
    for (const slot of this.set.slots) {
      if (slot.scan === null || !slot.hasAnswer()) continue;
      const early = this.#early + 1;
      this.collect();
      this.#early = early;
      return;
    }
  }

  /** False: a thread is at it. */
  leave(scan: ThreadScan, nowMs: number): boolean {
    if (scan.state === 'ahead') this.set.slots.some((slot) => slot.next === scan && this.#recall(slot, nowMs));
    if (scan.state !== 'waiting') return false;
    this.queue.remove(scan);
    return true;
  }

  /** Refuses what waits. What runs goes on. */
  refuseWaiting(nowMs: number): void {
    for (const slot of this.set.slots) this.#recall(slot, nowMs);
    for (const scan of this.queue.scans()) {
      if (scan.state !== 'waiting') continue;
      this.queue.remove(scan);
      scan.onRefused(new Unavailable('stopping'));
    }
  }

  /** Nothing waits or runs. True: all threads have ended; those that are late stay. */
  async stop(): Promise<boolean> {
    if (this.#alarm !== null) clearTimeout(this.#alarm);
    return await this.set.stop();
  }

  /** All answers that are there: first the threads get their next scans, then the scans their answers. */
  collect(): void {
    this.#early = 0;
    const nowMs = performance.now();
    // In a line of their own: a list would be made anew each time.
    let first: ThreadScan | null = null;
    let last: ThreadScan | null = null;
    for (const slot of this.set.slots) {
      if (!slot.hasStarted && slot.threadId() !== undefined) this.set.welcome(slot);
      for (let { scan } = slot; scan !== null; { scan } = slot) {
        if (!slot.takeAnswer(scan, nowMs)) break;
        if (slot.scan?.state === 'ahead') this.#goOn(slot.scan, nowMs);
        if (scan.isOfAnother && scan.said?.kind !== 'failed' && nowMs <= scan.deadlineMs) {
          this.#repeat(scan, slot, nowMs);
        } else {
          this.#release(scan, nowMs);
          if (last === null) first = scan;
          else last.behind = scan;
          last = scan;
        }
        if (slot.scan === null) this.set.putBack(slot);
      }
    }
    if (this.queue.size > 0 || this.queue.ahead > 0) this.#dispatch(nowMs);
    if (first === null) return;
    for (let scan: ThreadScan | null = first; scan !== null; ) {
      const one: ThreadScan = scan;
      scan = one.behind;
      // It may ask again.
      one.behind = null;
      try {
        deliver(one);
      } catch (error) {
        one.onBroken(error);
      }
    }
    this.onEnd?.();
  }

  /** Deadlines, and threads that don't come back: to be called again and again while anything waits or runs. */
  tick(nowMs: number): void {
    for (const scan of this.queue.scans()) {
      if (scan.state !== 'waiting' || scan.deadlineMs > nowMs) continue;
      this.queue.remove(scan);
      scan.onRefused(new Unavailable('queueSlow'));
    }
    for (const slot of this.set.slots) {
      this.#watch(slot, nowMs);
      for (const scan of [slot.scan, slot.next]) if (scan?.state === 'running') this.#lookForDeadline(scan, nowMs);
    }
    if (this.set.room > 0 && this.set.spanMs(nowMs) >= PRESS_MS) this.set.press();
  }

  /** On an idle thread; its account has been charged for it. */
  #start(scan: ThreadScan, turn: TurnKind, nowMs: number): void {
    const slot = this.set.take();
    slot.sinceMs = nowMs;
    slot.post(scan);
    this.#begin(scan, turn, nowMs);
  }

  #begin(scan: ThreadScan, turn: TurnKind, nowMs: number): void {
    scan.state = 'running';
    scan.begunMs = nowMs;
    scan.isOverdue = false;
    scan.isAgain = false;
    scan.turn = turn === 'alone' && this.queue.active.size > 1 ? 'shared' : turn;
    this.running += 1;
    if (scan.hearsTurn) scan.onTurn();
  }

  #dispatch(nowMs: number): void {
    const queue = this.queue;
    while (queue.size > 0 || queue.ahead > 0) {
      if (this.set.isFree) {
        // A thread has nothing to do: what lies behind the scan of another one need not.
        if (queue.size === 0 && !this.set.slots.some((slot) => this.#recall(slot, nowMs))) break;
        const scan = queue.shift(nowMs);
        if (scan === null) break;
        this.#start(scan, 'alone', nowMs);
      } else if (queue.size === 0 || !(this.#standIn(nowMs) || this.#layAhead(nowMs))) break;
    }
    if (queue.size > 0 || queue.ahead > 0) this.#alarm ??= setTimeout(() => this.#wake(), LONG_MS);
  }

  /** What can't wait for longer: what lies behind a long scan, and what waits while all threads are at long ones. */
  #wake(): void {
    this.#alarm = null;
    const nowMs = performance.now();
    for (const slot of this.set.slots) if (nowMs - slot.sinceMs >= LONG_MS) this.#recall(slot, nowMs);
    this.#dispatch(nowMs);
  }

  /**
   * A scan can't be interrupted. So when all threads of the set, or as many beside it, have been at their scans for longer than the next
   * one is worth waiting, a further thread takes that one, up to a bound; and the kernel, which can interrupt, shares the cores.
   */
  #standIn(nowMs: number): boolean {
    const spanMs = this.set.spanMs(nowMs);
    if (spanMs < LONG_MS) return false;
    const { room } = this.set;
    if (room <= 0) return false;
    const scan = this.queue.smallest({ spanMs, left: room - 1, besideOthers: 2 * this.#options.count }, nowMs);
    if (scan === null) return false;
    this.set.press(true);
    if (!this.set.hasIdle) return false;
    this.queue.take(scan);
    this.#start(scan, 'standIn', nowMs);
    return true;
  }

  /** While scans take a moment, the next one lies ready at a thread, which need not wait until this process has heard of the end of the one before. */
  #layAhead(nowMs: number): boolean {
    if (this.set.busy > this.set.size || this.queue.ahead >= this.set.busy) return false;
    for (const slot of this.set.slots) {
      if (!slot.canTakeNext(nowMs - LONG_MS)) continue;
      const scan = this.queue.shift(nowMs);
      if (scan === null) return false;
      this.queue.layAhead(scan);
      slot.post(scan);
      return true;
    }
    return false;
  }

  /** What lies behind the scan of this thread goes back into the queue, unless the thread has begun it. */
  #recall(slot: ThreadSlot, nowMs: number): boolean {
    const { next } = slot;
    if (next?.state !== 'ahead' || !slot.takeBack()) return false;
    this.queue.putBack(next, nowMs);
    return true;
  }

  /** The thread has let go of a scan, and this one, which lay behind it, has begun. */
  #goOn(scan: ThreadScan, nowMs: number): void {
    this.queue.settle(scan);
    this.#begin(scan, 'alone', nowMs);
  }

  /** Another engine came to serve meanwhile: that one is asked. */
  #repeat(scan: ThreadScan, slot: ThreadSlot, nowMs: number): void {
    this.#recall(slot, nowMs);
    scan.isAgain = true;
    slot.post(scan);
  }

  #release(scan: ThreadScan, nowMs: number): void {
    scan.state = 'idle';
    this.running -= 1;
    if (scan.charged !== null) this.queue.end(scan, nowMs);
  }

  /** Its thread has died. */
  #fail(scan: ThreadScan): void {
    const nowMs = performance.now();
    if (scan.state === 'ahead') {
      this.queue.putBack(scan, nowMs);
      return;
    }
    this.#release(scan, nowMs);
    if (scan.isOverdue) scan.onLetGo();
    else scan.onRefused(new Error('The scan thread has died'));
    this.onEnd?.();
  }

  /** The scan is no longer charged to its account, and another thread takes the place of this one. */
  #giveUp(slot: ThreadSlot, scan: ThreadScan, nowMs: number): void {
    this.#recall(slot, nowMs);
    this.queue.end(scan, nowMs);
    this.set.giveUp(slot);
    this.#dispatch(nowMs);
  }

  #lookForDeadline(scan: ThreadScan, nowMs: number): void {
    if (scan.isOverdue || scan.deadlineMs > nowMs) return;
    scan.isOverdue = true;
    const { scanTimeoutMs } = this.#options;
    const isStarved = scan.begunMs - scan.askedMs > scanTimeoutMs * WAITED_SHARE;
    const reason = `scan exceeded ${scanTimeoutMs} ms`;
    scan.onOverdue({ kind: 'incomplete', reason }, isStarved, nowMs - scan.askedMs);
  }
}

function deliver(scan: ThreadScan): void {
  const { engine, said } = scan;
  if (scan.isOverdue) scan.onLetGo();
  else if (engine === null) unseen(scan, 'no engine is loaded');
  else if (said?.kind === 'failed') unseen(scan, said.message);
  else if (scan.isOfAnother) unseen(scan, 'another engine came to serve');
  else scan.onAnswer(said === null ? CLEAN : readAnswer(said.answer, scan.policy), engine, scan.lookedMs);
}

function unseen(scan: ThreadScan, reason: string): void {
  scan.detectedType = null;
  scan.secondLook = null;
  scan.onAnswer({ kind: 'incomplete', reason: `engine error: ${reason}` }, null, 0);
}
