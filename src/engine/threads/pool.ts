// The scan threads: a lane for content over 1 MB and one for all other, so that small scans need not wait for threads that are at large ones; and one scan as a promise,
// for the command line, benchmarks and tests.
import { performance } from 'node:perf_hooks';
import { availableCores } from '../../config/config.js';
import { throwLater, Unavailable, type UnavailableReason } from '../../errors.js';
import { processAddon } from '../../process-addon.js';
import { later } from '../../waiting/within.js';
import type { Engine } from '../engine.js';
import { type EncryptedPolicy, type ScanPolicy, usualPolicy, type Verdict } from '../verdict.js';
import { startBell } from './bell.js';
import { MIDDLE_BYTES } from './fair-queue.js';
import { Lane } from './lane.js';
import type { SandboxMode } from './task.js';
import { ThreadScan } from './thread-scan.js';

export interface MemoryGuard {
  /** Why nothing can be scanned at the moment; null: there is room. */
  readonly refusal: string | null;
}

export interface PoolOptions {
  readonly threads: number;
  /** Server processes on this machine, each with as many threads. Default: 1. */
  readonly processes?: number;
  /** With those for content over 1 MB, and those beside the sets while scans take long. Default: eight times as many. */
  readonly threadsMost?: number;
  /** So long threads beside the set are kept after the last time that one was wanted, and what scans have freed after the last scan. Default: 5 s. */
  readonly keepMs?: number;
  /** Scans that may wait, as many again over 1 MB; the next one is refused with 503. An account alone may have three quarters of them. */
  readonly queueLimit: number;
  /** From the call to the verdict, waiting included. */
  readonly scanTimeoutMs: number;
  readonly encryptedArchives?: EncryptedPolicy;
  /** Descriptor of the memory in which threads say what they are at (ring.ts). Default: none. */
  readonly inFlight?: number | null;
  /** A thread hangs in this content: it is at it long after the engine's own limit, and not because the machine is busy. */
  readonly onHung?: (sha256: string | null) => void;
  /** A thread that is wanted can't be started, with the reason. Default: nobody hears of it. */
  readonly onLack?: (reason: string) => void;
  /** Beyond the deadline, before a thread is late. Default 5 s. */
  readonly graceMs?: number;
  /** Default: nobody looks at the memory. */
  readonly memory?: MemoryGuard;
  /** Default: auto. */
  readonly sandbox?: SandboxMode;
}

/** For each thread of the set. */
const MOST_THREADS = 8;
const UNGUARDED: MemoryGuard = { refusal: null };
/** To start a thread takes 50 ms of a core, and an idle one holds some 8 MB. */
const KEEP_MS = 5_000;
/** A thread that comes back so long after the deadline is slow, not late. */
const GRACE_MS = 5_000;
/** A scan of so much has likely ended before the event loop would have gone to sleep and been woken. */
const SHORT_BYTES = 16 * 1024;
/** How late a deadline may be noticed. */
const TICK_MS = 20;

export class ScanPool {
  readonly threads: number;
  /** What is done with encrypted content unless somebody asks otherwise. */
  readonly policy: ScanPolicy;
  /** Of contents up to 1 MB: so many wait that `refusal` is worth asking, or not. */
  readonly queue: { readonly isCrowded: boolean };
  readonly #memory: MemoryGuard;
  readonly #bell: ReturnType<typeof startBell>;
  /** Threads look for what comes before they sleep. Where a process has no more than one core, what looks is in the way of what works. */
  readonly #staysAwake: boolean;
  readonly #light: Lane;
  /** Null: there are no threads for it. */
  readonly #heavy: Lane | null;
  readonly #lanes: readonly Lane[];
  readonly #keepMs: number;
  #ticking: NodeJS.Timeout | null = null;
  #resting: NodeJS.Timeout | null = null;
  /** The last scan. */
  #askedMs = 0;
  #onEnded: (() => void) | null = null;

  constructor(options: PoolOptions) {
    const { threads, scanTimeoutMs, queueLimit, onHung } = options;
    this.threads = threads;
    this.#staysAwake = availableCores() > (options.processes ?? 1);
    const { encryptedArchives: encrypted = usualPolicy.encrypted } = options;
    this.policy = { ...usualPolicy, encrypted };
    this.#memory = options.memory ?? UNGUARDED;
    this.#bell = startBell(() => {
      for (const lane of this.#lanes) if (lane.set.slots.length > 0) lane.collect();
      if (this.#light.running === 0) this.#bell.leave();
    });
    this.#keepMs = options.keepMs ?? KEEP_MS;
    const common = {
      queueLimit,
      scanTimeoutMs,
      keepMs: this.#keepMs,
      graceMs: options.graceMs ?? GRACE_MS,
      bell: this.#bell.rope,
      places: [],
      settings: {
        sandbox: options.sandbox ?? 'auto',
        inFlight: options.inFlight ?? null,
        staysAwake: this.#staysAwake,
      },
      onLack: options.onLack ?? (() => undefined),
      onHung: (scan: ThreadScan) => onHung?.(scan.isAgain ? null : scan.sha256),
    };
    const beside = Math.max(0, (options.threadsMost ?? MOST_THREADS * threads) - threads);
    const half = Math.floor(beside / 2);
    // With fewer than the set has, large content would wait beside idle threads.
    const heavyMost = half < threads ? 0 : half;
    this.#light = new Lane({ ...common, count: threads, most: threads + beside - heavyMost, isHeavy: false });
    this.queue = this.#light.queue;
    this.#heavy = heavyMost === 0 ? null : new Lane({ ...common, count: threads, most: heavyMost, isHeavy: true });
    this.#lanes = this.#heavy === null ? [this.#light] : [this.#light, this.#heavy];
  }

  /** Why nothing can be scanned at the moment; null: it can. Without threads for large contents the others take them. */
  get problem(): string | null {
    return this.#memory.refusal ?? this.#light.set.problem;
  }

  get waiting(): number {
    return this.#sum((lane) => lane.waiting);
  }

  get accountsWaiting(): number {
    return new Set(this.#lanes.flatMap(({ queue }) => queue.accountsWaiting())).size;
  }

  get running(): number {
    return this.#sum((lane) => lane.running);
  }

  /** Threads at scans beside those of the set: at content over 1 MB, and at what would wait behind long scans. */
  get standIns(): number {
    return this.#light.standIns + (this.#heavy?.set.busy ?? 0);
  }

  /** Threads that have started, idle ones among them. */
  get threadsOpen(): number {
    return this.#sum(({ set }) => set.slots.filter(({ hasStarted }) => hasStarted).length);
  }

  /** Threads that are not back long after the deadline; each has another one in its place, up to a second set of them. */
  get late(): number {
    return this.#sum(({ set }) => set.slots.filter(({ watch }) => watch?.isLate === true).length);
  }

  /** Those of them that won't come back, whatever the machine does. */
  get hung(): number {
    return this.#sum(({ set }) => set.slots.filter(({ watch }) => watch?.isHung === true).length);
  }

  /** Scans it, now or when its turn comes. Its methods are called with what comes of it, possibly before this returns. */
  ask(scan: ThreadScan): void {
    const { refusal } = this.#memory;
    if (refusal !== null || this.#onEnded !== null) {
      scan.onRefused(
        refusal === null ? new Unavailable('stopping') : new Unavailable('engineMemory', { text: refusal }),
      );
      return;
    }
    const nowMs = performance.now();
    scan.askedMs = nowMs;
    this.#askedMs = nowMs;
    this.#ticking ??= setInterval(() => this.#tick(), TICK_MS);
    if (scan.sizeBytes > MIDDLE_BYTES) this.#askLarge(scan, nowMs);
    else this.#light.ask(scan, nowMs);
    const isUnderWay = scan.state === 'running' || scan.state === 'ahead';
    if (this.#staysAwake && isUnderWay && scan.sizeBytes <= SHORT_BYTES) this.#bell.attend();
  }

  /** While threads for it start, or where none can be started, the others take it. */
  #askLarge(scan: ThreadScan, nowMs: number): void {
    const [light, heavy] = [this.#light, this.#heavy];
    // It may take long: threads start while it begins, and not beside it.
    (heavy ?? light).set.press();
    scan.isHeavy = heavy?.set.hasStarted === true && (heavy.isFree || heavy.set.isWhole || !light.isFree);
    this.#laneOf(scan).ask(scan, nowMs);
  }

  /** Why a scan of the account would be refused now, since too many wait; null: it would not be, or its content may have over 1 MB. */
  refusal(account: string, bytesMost: number): UnavailableReason | null {
    return bytesMost > MIDDLE_BYTES ? null : this.#light.refusal(account);
  }

  /** Its client has left: true, and none of its methods is called any more, if no thread was at it. */
  leave(scan: ThreadScan): boolean {
    return this.#laneOf(scan).leave(scan, performance.now());
  }

  /** Refuses what waits, lets what runs end, ends the threads. Those that are late stay: only the end of the process ends them. */
  async stop(): Promise<void> {
    const ended = new Promise<void>((resolve) => {
      this.#onEnded = resolve;
    });
    if (this.#resting !== null) clearTimeout(this.#resting);
    const nowMs = performance.now();
    for (const lane of this.#lanes) {
      lane.onEnd = () => this.#lookForEnd();
      lane.refuseWaiting(nowMs);
    }
    this.#lookForEnd();
    await ended;
    const areAll = await Promise.all(this.#lanes.map((lane) => lane.stop()));
    if (areAll.every(Boolean)) this.#bell.stop();
  }

  #laneOf({ isHeavy }: ThreadScan): Lane {
    return isHeavy && this.#heavy !== null ? this.#heavy : this.#light;
  }

  #sum(count: (lane: Lane) => number): number {
    return this.#lanes.reduce((sum, lane) => sum + count(lane), 0);
  }

  #tick(): void {
    const nowMs = performance.now();
    for (const lane of this.#lanes) lane.tick(nowMs);
    this.#lookForEnd();
    if (this.running > 0 || this.waiting > 0 || this.#ticking === null) return;
    clearInterval(this.#ticking);
    this.#ticking = null;
    this.#rest();
  }

  /** What scans have freed is kept for the next ones, which take it anew, page by page, once nothing was asked for in a while. */
  #rest(): void {
    this.#resting ??= setTimeout(() => {
      this.#resting = null;
      if (this.#ticking !== null) return;
      if (performance.now() - this.#askedMs < this.#keepMs) this.#rest();
      else processAddon()?.giveMemoryBack();
    }, this.#keepMs).unref();
  }

  #lookForEnd(): void {
    if (this.#onEnded !== null && this.waiting === 0 && this.running <= this.late) this.#onEnded();
  }
}

type ScanOutcome =
  | {
      readonly verdict: Verdict;
      /** The engine that scanned it; null: no engine did, and the verdict is incomplete. */
      readonly engine: Engine | null;
      /** Time inside the engine. */
      readonly durationMs: number;
      readonly returned: null;
    }
  | {
      /** The deadline passed while a thread was at it. */
      readonly verdict: Verdict;
      /** Most of its time went by in the queue: that says nothing of the content. */
      readonly starved: boolean;
      readonly engine: null;
      readonly durationMs: number;
      /** Resolves when the thread lets go of the content; until then its memory is in use. */
      readonly returned: Promise<void>;
    };

class PromisedScan extends ThreadScan {
  readonly end = later<ScanOutcome>();
  readonly #letGo = later();

  override onTurn(): void {
    // Nobody asks.
  }

  override onAnswer(verdict: Verdict, engine: Engine | null, durationMs: number): void {
    this.end.resolve({ verdict, engine, durationMs, returned: null });
  }

  override onRefused(reason: Unavailable | Error): void {
    this.end.reject(reason);
  }

  override onOverdue(verdict: Verdict, starved: boolean, durationMs: number): void {
    this.end.resolve({ verdict, starved, engine: null, durationMs, returned: this.#letGo.promise });
  }

  override onLetGo(): void {
    this.#letGo.resolve();
  }

  override onBroken(error: unknown): void {
    throwLater(error);
  }
}

/**
 * Scans the first `sizeBytes` of the content, in place: nobody writes to it until it is back. Rejects with Failure `unavailable` when the
 * queue is full, the account has its share of it, the deadline passes in the queue, or the pool stops.
 */
export function scanOnce(
  pool: Pick<ScanPool, 'ask' | 'policy'>,
  content: Uint8Array<SharedArrayBuffer>,
  sizeBytes: number,
  named: Partial<Pick<ThreadScan, 'account' | 'sha256'>> = {},
): Promise<ScanOutcome> {
  const scan = Object.assign(new PromisedScan(), { policy: pool.policy, content, sizeBytes, ...named });
  pool.ask(scan);
  return scan.end.promise;
}
