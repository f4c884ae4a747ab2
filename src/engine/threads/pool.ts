// The scan threads: each scan has its turn, its thread and its deadline. What small scans need beside large ones is one rule here: `standIn`.
import { performance } from 'node:perf_hooks';
import { Unavailable } from '../../errors.js';
import { contentType } from '../clamav/addon.js';
import type { Engine } from '../engine.js';
import { type EncryptedPolicy, readAnswer, type ScanPolicy, usualPolicy, type Verdict } from '../verdict.js';
import { FairQueue, LONG_MS, MIDDLE_BYTES } from './fair-queue.js';
import type { SandboxMode } from './task.js';
import type { ThreadScan } from './thread-scan.js';
import { ThreadSet } from './thread-set.js';
import type { ThreadAnswer, ThreadSlot } from './thread-slot.js';
import { createWatch } from './thread-watch.js';

export interface PoolOptions {
  readonly threads: number;
  /** With those beside the set, while scans take long. Default: eight times as many. */
  readonly threadsMost?: number;
  /** So long threads beside the set are kept after the last time that one was wanted. Default: a minute. */
  readonly keepMs?: number;
  /** Scans that may wait; the next one is refused with 503. An account alone may have three quarters of them. */
  readonly queueLimit: number;
  /** From the call to the verdict, waiting included. */
  readonly scanTimeoutMs: number;
  readonly encryptedArchives?: EncryptedPolicy;
  /** Descriptor of the file in which threads say what they are at (in-flight.ts). */
  readonly inFlight?: number;
  /** A thread hangs in this content: it is at it long after the engine's own limit, and not because the machine is busy. */
  readonly onHung?: (sha256: string | null) => void;
  /** Beyond the deadline, before a thread is late. Default 5 s. */
  readonly graceMs?: number;
  /** Why nothing can be scanned at the moment; null: all is well. */
  readonly refusal?: () => string | null;
  /** Default: auto. */
  readonly sandbox?: SandboxMode;
}

/** How a scan came to its thread: as the only account there was, beside others, or by a thread beside the set. */
export type TurnKind = 'alone' | 'shared' | 'standIn';

export interface ScanPool {
  /** Scans it, now or when its turn comes. Its methods are called with what comes of it, possibly before this returns. */
  ask(scan: ThreadScan): void;
  /** Its client has left: true, and none of its methods is called any more, if no thread was at it. */
  leave(scan: ThreadScan): boolean;
  /** What is done with encrypted content unless somebody asks otherwise. */
  readonly policy: ScanPolicy;
  /** Scans that wait for a thread. */
  readonly waiting: number;
  /** Accounts that they are of. */
  readonly accountsWaiting: number;
  /** Scans that a thread is at. */
  readonly running: number;
  readonly threads: number;
  /** Threads at scans beside those. */
  readonly standIns: number;
  /** Threads that there are, idle ones among them. */
  readonly threadsOpen: number;
  /** Threads that are not back long after the deadline; each has another one in its place, up to a second set of them. */
  readonly late: number;
  /** Those of them that won't come back, whatever the machine does. */
  readonly hung: number;
  /** Says from now on how long each scan has waited for its thread. One listener. */
  onTurn(listener: (kind: TurnKind, waitedMs: number) => void): void;
  /** Refuses what waits, lets what runs end, ends the threads. Those that are late stay: only the end of the process ends them. */
  stop(): Promise<void>;
}

const REFUSALS = { full: 'queueFull', beyondShare: 'queueShareFull' } as const;
/** For each thread of the set. */
const MOST_THREADS = 8;
/** To start a thread takes 50 ms of a core, and an idle one holds some 8 MB. */
const KEEP_MS = 60_000;
/** A thread that comes back so long after the deadline is slow, not late. */
const GRACE_MS = 5_000;
/** How late a deadline may be noticed. */
const TICK_MS = 20;
/** All threads of the set have been at their scans for so long: threads beside it are made ahead, before anything waits. */
const PRESS_MS = 50;
/** A scan that waited for more than this share of its deadline had too little left for anybody to blame the content. */
const WAITED_SHARE = 0.3;
export function startPool(options: PoolOptions): ScanPool {
  return new Pool(options);
}

class Pool implements ScanPool {
  readonly threads: number;
  readonly policy: ScanPolicy;
  running = 0;
  readonly #options: PoolOptions;
  readonly #queue: FairQueue;
  readonly #set: ThreadSet;
  readonly #watch: ReturnType<typeof createWatch>;
  #observe: (kind: TurnKind, waitedMs: number) => void = () => undefined;
  #ticking: NodeJS.Timeout | null = null;
  #alarm: NodeJS.Timeout | null = null;
  #onEnded: (() => void) | null = null;

  constructor(options: PoolOptions) {
    const { threads, scanTimeoutMs, onHung } = options;
    this.threads = threads;
    const { encryptedArchives: encrypted = usualPolicy.encrypted } = options;
    this.policy = { ...usualPolicy, encrypted };
    this.#options = options;
    this.#queue = new FairQueue(options.queueLimit);
    this.#set = new ThreadSet({
      count: threads,
      most: Math.max(threads, options.threadsMost ?? MOST_THREADS * threads),
      keepMs: options.keepMs ?? KEEP_MS,
      settings: { sandbox: options.sandbox ?? 'auto', inFlight: options.inFlight ?? null },
      onRing: () => this.#collect(),
      onIdle: () => this.#dispatch(),
      onDied: (scan) => this.#fail(scan),
    });
    this.#watch = createWatch({
      scanTimeoutMs,
      graceMs: options.graceMs ?? GRACE_MS,
      onGivenUp: (slot, scan, nowMs) => this.#giveUp(slot, scan, nowMs),
      onHung: (scan) => onHung?.(scan.isAgain ? null : scan.sha256),
    });
  }

  get waiting(): number {
    return this.#queue.size + this.#queue.ahead;
  }

  get accountsWaiting(): number {
    return this.#queue.accountsWaiting();
  }

  get standIns(): number {
    return Math.max(0, this.#set.busy - this.#set.size);
  }

  get threadsOpen(): number {
    return this.#set.slots.length;
  }

  get late(): number {
    return this.#set.slots.filter(({ watch }) => watch?.isLate === true).length;
  }

  get hung(): number {
    return this.#set.slots.filter(({ watch }) => watch?.isHung === true).length;
  }

  onTurn(listener: (kind: TurnKind, waitedMs: number) => void): void {
    this.#observe = listener;
  }

  ask(scan: ThreadScan): void {
    const refusal = this.#refusal();
    if (refusal !== null) {
      scan.onRefused(refusal);
      return;
    }
    const nowMs = performance.now();
    scan.askedMs = nowMs;
    scan.deadlineMs = nowMs + this.#options.scanTimeoutMs;
    this.#ticking ??= setInterval(() => this.#tick(), TICK_MS);
    // It may take long: threads beside the set start while it begins, and not beside it.
    if (scan.sizeBytes > MIDDLE_BYTES) this.#set.press();
    if (this.#queue.size === 0 && this.#set.isFree) {
      this.#queue.begin(scan, nowMs);
      this.#start(scan, 'set', nowMs);
      return;
    }
    const answer = this.#queue.push(scan, nowMs);
    if (answer === null) this.#dispatch();
    else scan.onRefused(new Unavailable(REFUSALS[answer]));
  }

  leave(scan: ThreadScan): boolean {
    const nowMs = performance.now();
    if (scan.state === 'ahead') this.#set.slots.some((slot) => slot.next === scan && this.#recall(slot, nowMs));
    if (scan.state !== 'waiting') return false;
    this.#queue.remove(scan);
    return true;
  }

  async stop(): Promise<void> {
    const ended = new Promise<void>((resolve) => {
      this.#onEnded = resolve;
    });
    const nowMs = performance.now();
    for (const slot of this.#set.slots) this.#recall(slot, nowMs);
    for (const scan of this.#queue.scans()) {
      if (scan.state !== 'waiting') continue;
      this.#queue.remove(scan);
      scan.onRefused(new Unavailable('stopping'));
    }
    this.#lookForEnd();
    await ended;
    if (this.#alarm !== null) clearTimeout(this.#alarm);
    await this.#set.stop();
  }

  #refusal(): Unavailable | null {
    const refusal = this.#options.refusal?.() ?? null;
    if (refusal !== null) return new Unavailable('engineMemory', { text: refusal });
    return this.#onEnded === null ? null : new Unavailable('stopping');
  }

  /** On an idle thread; its account has been charged for it. */
  #start(scan: ThreadScan, by: 'set' | 'standIn', nowMs: number): void {
    const slot = this.#set.take();
    slot.sinceMs = nowMs;
    slot.post(scan);
    this.#begin(scan, by, nowMs);
  }

  #begin(scan: ThreadScan, by: 'set' | 'standIn', nowMs: number): void {
    scan.state = 'running';
    scan.begunMs = nowMs;
    scan.isOverdue = false;
    scan.isAgain = false;
    this.running += 1;
    const waitedMs = nowMs - scan.askedMs;
    this.#observe(by === 'standIn' ? by : this.#queue.accountsActive > 1 ? 'shared' : 'alone', waitedMs);
    scan.onTurn(waitedMs);
  }

  /** Gives threads to scans as long as there are both. */
  #dispatch(): void {
    const queue = this.#queue;
    while (queue.size > 0 || queue.ahead > 0) {
      const nowMs = performance.now();
      if (this.#set.isFree) {
        // A thread has nothing to do: what lies behind the scan of another one need not.
        if (queue.size === 0 && !this.#set.slots.some((slot) => this.#recall(slot, nowMs))) break;
        const scan = queue.shift(nowMs);
        if (scan === null) break;
        this.#start(scan, 'set', nowMs);
      } else if (queue.size === 0 || !(this.#standIn(nowMs) || this.#layAhead(nowMs))) break;
    }
    if (queue.size > 0 || queue.ahead > 0) this.#alarm ??= setTimeout(() => this.#wake(), LONG_MS);
  }

  /** What can't wait for longer: what lies behind a long scan, and what waits while all threads are at long ones. */
  #wake(): void {
    this.#alarm = null;
    const nowMs = performance.now();
    for (const slot of this.#set.slots) if (nowMs - slot.sinceMs >= LONG_MS) this.#recall(slot, nowMs);
    this.#dispatch();
  }

  /**
   * A scan can't be interrupted. So when all threads of the set, or as many beside it, have been at their scans for longer than the next
   * one is worth waiting, a further thread takes that one, up to a bound; and the kernel, which can interrupt, shares the cores.
   */
  #standIn(nowMs: number): boolean {
    const { room } = this.#set;
    const spanMs = spanOf(this.#set, nowMs);
    if (spanMs < LONG_MS || room <= 0) return false;
    const scan = this.#queue.smallest({ spanMs, left: room - 1, besideOthers: 2 * this.threads }, nowMs);
    if (scan === null) return false;
    this.#set.press();
    if (!this.#set.hasIdle) return false;
    this.#queue.take(scan, nowMs);
    this.#start(scan, 'standIn', nowMs);
    return true;
  }

  /** While scans take a moment, the next one lies ready at a thread, which need not wait until this process has heard of the end of the one before. */
  #layAhead(nowMs: number): boolean {
    if (this.#set.busy > this.#set.size) return false;
    for (const slot of this.#set.slots) {
      if (!slot.canTakeNext(nowMs - LONG_MS)) continue;
      const scan = this.#queue.shift(nowMs);
      if (scan === null) return false;
      this.#queue.layAhead(scan);
      slot.post(scan);
      return true;
    }
    return false;
  }

  /** What lies behind the scan of this thread goes back into the queue, unless the thread has begun it. */
  #recall(slot: ThreadSlot, nowMs: number): boolean {
    const { next } = slot;
    if (next?.state !== 'ahead' || !slot.takeBack()) return false;
    this.#queue.putBack(next, nowMs);
    return true;
  }

  /** All answers that are there: first the threads get their next scans, then the scans their answers. */
  #collect(): void {
    const nowMs = performance.now();
    const ended: Ended[] = [];
    for (const slot of this.#set.slots) {
      if (!slot.hasStarted && slot.threadId() !== undefined) this.#set.welcome(slot);
      for (let { scan } = slot; scan !== null; { scan } = slot) {
        const answer = slot.takeAnswer();
        if (answer === null) break;
        this.#goOn(slot, nowMs);
        const end = endOf(scan, answer, nowMs);
        if (end === null) this.#repeat(scan, slot, nowMs);
        else {
          this.#release(scan, nowMs);
          ended.push(end);
        }
        if (slot.scan === null) this.#set.putBack(slot);
      }
    }
    this.#dispatch();
    for (const end of ended) deliver(end);
    this.#lookForEnd();
  }

  /** The thread has let go of a scan. The one that lay behind it has begun. */
  #goOn(slot: ThreadSlot, nowMs: number): void {
    slot.sinceMs = nowMs;
    slot.watch = null;
    if (slot.scan?.state !== 'ahead') return;
    this.#queue.settle(slot.scan);
    this.#begin(slot.scan, 'set', nowMs);
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
    if (scan.charged !== null) this.#queue.end(scan, nowMs);
  }

  /** Its thread has died. */
  #fail(scan: ThreadScan): void {
    const nowMs = performance.now();
    if (scan.state === 'ahead') {
      this.#queue.putBack(scan, nowMs);
      return;
    }
    this.#release(scan, nowMs);
    if (scan.isOverdue) scan.onLetGo();
    else scan.onRefused(new Error('The scan thread has died'));
    this.#lookForEnd();
  }

  /** The scan is no longer charged to its account, and another thread takes the place of this one. */
  #giveUp(slot: ThreadSlot, scan: ThreadScan, nowMs: number): void {
    this.#recall(slot, nowMs);
    this.#queue.end(scan, nowMs);
    this.#set.giveUp(slot);
    this.#dispatch();
  }

  #tick(): void {
    const nowMs = performance.now();
    for (const scan of this.#queue.scans()) {
      if (scan.state !== 'waiting' || scan.deadlineMs > nowMs) continue;
      this.#queue.remove(scan);
      scan.onRefused(new Unavailable('queueSlow'));
    }
    for (const slot of this.#set.slots) {
      this.#watch(slot, nowMs);
      for (const scan of [slot.scan, slot.next]) if (scan?.state === 'running') this.#lookForDeadline(scan, nowMs);
    }
    if (this.#set.room > 0 && spanOf(this.#set, nowMs) >= PRESS_MS) this.#set.press();
    this.#lookForEnd();
    if (this.running > 0 || this.waiting > 0 || this.#ticking === null) return;
    clearInterval(this.#ticking);
    this.#ticking = null;
  }

  #lookForDeadline(scan: ThreadScan, nowMs: number): void {
    if (scan.isOverdue || scan.deadlineMs > nowMs) return;
    scan.isOverdue = true;
    const { scanTimeoutMs } = this.#options;
    const isStarved = scan.begunMs - scan.askedMs > scanTimeoutMs * WAITED_SHARE;
    const reason = `scan exceeded ${scanTimeoutMs} ms`;
    scan.onOverdue({ kind: 'incomplete', reason }, isStarved, nowMs - scan.askedMs);
  }

  #lookForEnd(): void {
    if (this.#onEnded !== null && this.running <= this.late) this.#onEnded();
  }
}

/** How long as many threads as the set has, at least, have been at their scans; 0: one of the set has none, or they are at short ones. */
function spanOf({ slots, size, busy }: ThreadSet, nowMs: number): number {
  if (busy < size) return 0;
  let young = 0;
  for (const { scan, isGivenUp, sinceMs } of slots) {
    if (scan !== null && !isGivenUp && nowMs - sinceMs < LONG_MS) young += 1;
  }
  if (young >= Math.max(1, size)) return 0;
  const ages: number[] = [];
  for (const { scan, isGivenUp, sinceMs } of slots) if (scan !== null && !isGivenUp) ages.push(nowMs - sinceMs);
  ages.sort((one, other) => one - other);
  return ages[Math.max(1, size) - 1] ?? 0;
}

/** What came of a scan. */
interface Ended {
  readonly scan: ThreadScan;
  readonly verdict: Verdict;
  readonly engine: Engine | null;
  readonly durationMs: number;
}

/** A thread takes the native engine that serves when it begins. Null: that isn't the one that was asked, and there is time to ask again. */
function endOf(scan: ThreadScan, answer: ThreadAnswer, nowMs: number): Ended | null {
  const { engine, policy, deadlineMs } = scan;
  if (engine === null) return unseen(scan, 'no engine is loaded');
  if (answer.kind === 'failed') return unseen(scan, answer.message);
  if (answer.nativeEpoch === engine.work.nativeEpoch) {
    scan.detectedType = contentType(answer.type);
    return { scan, verdict: readAnswer(answer.answer, policy), engine, durationMs: answer.durationMs };
  }
  return nowMs > deadlineMs ? unseen(scan, 'another engine came to serve') : null;
}

function unseen(scan: ThreadScan, reason: string): Ended {
  return { scan, verdict: { kind: 'incomplete', reason: `engine error: ${reason}` }, engine: null, durationMs: 0 };
}

function deliver({ scan, verdict, engine, durationMs }: Ended): void {
  if (scan.isOverdue) scan.onLetGo();
  else scan.onAnswer(verdict, engine, durationMs);
}
