// One scan thread as the serving thread has it: a Piscina of one thread, since of several it doesn't say which one has the task, its ring, the scan that it is at and the one that lies ready behind it;
// and the watch over those that do not come back from a scan: when one gets less of the processor, when it is given up, and when it is late.
import { readFileSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { scanWorkerPath } from '../../paths.js';
import { processAddon } from '../../process-addon.js';
import { contentType } from '../clamav/addon.js';
import { serving } from '../engine.js';
import { NO_SLOT, ServingRing, wakeThread } from './ring.js';
import {
  type EngineWork,
  FIELD,
  type FromThread,
  ID_UNKNOWN,
  ID_UNSAID,
  RING_BYTES,
  type RingMemory,
  ringMemory,
  THREAD_ID,
  type ThreadStart,
  type ToThread,
} from './task.js';
import type { ThreadScan } from './thread-scan.js';

/**
 * The kernel gives a thread with this nice value a tenth of what the others get on a busy machine. Otherwise a thread that is at one
 * scan for long would take as much as each other one and as the thread that serves.
 */
const LOW_NICE = 10;
/** The thread then says that there is nothing to scan with. */
const NO_WORK: EngineWork = { nativeEpoch: null, rules: null };

export interface ThreadSlotOptions extends Omit<ThreadStart, 'ring' | 'port'> {
  /** `reason`: of one that ended by an error. */
  readonly onExit: (slot: ThreadSlot, reason: unknown) => void;
}

export class ThreadSlot {
  readonly place: number;
  scan: ThreadScan | null = null;
  next: ThreadScan | null = null;
  /** Since when it is at its scan, as far as the serving thread knows. */
  sinceMs = 0;
  /** The thread has said its number. */
  hasStarted = false;
  isEnding = false;
  /** Its scan has used up its time: it is no longer of the set. */
  isGivenUp = false;
  /** Of one that is given up. */
  watch: HangWatch | null = null;
  /** Before it was lowered; null: it is as it was. */
  usualNice: number | null = null;
  readonly #piscina: Piscina<ThreadStart, never>;
  readonly #port: MessagePort;
  readonly #memory: RingMemory;
  readonly #ring: ServingRing;
  readonly #addon = processAddon();
  /** Memory that the thread knows by a number. */
  readonly #numbers = new WeakMap<SharedArrayBuffer, number>();
  #memories = 0;
  #rulesId: number | null = null;
  #messages = 0;

  /** Throws where the kernel refuses a thread at once: there is no memory or no process number for it. */
  constructor({ onExit, ...given }: ThreadSlotOptions) {
    const ring = new SharedArrayBuffer(RING_BYTES);
    const { port1, port2 } = new MessageChannel();
    const start: ThreadStart = { ...given, ring, port: port2 };
    this.place = given.place;
    this.#port = port1;
    this.#memory = ringMemory(ring);
    this.#ring = new ServingRing(this.#memory.words);
    this.#piscina = startPiscina();
    let hasEnded = false;
    // Of one that has started it is no matter why: its scans fail, and another one comes.
    const ended = (reason?: unknown): void => {
      if (hasEnded) return;
      hasEnded = true;
      port1.close();
      // Piscina would put another thread in its place.
      void this.#piscina.destroy();
      onExit(this, reason);
    };
    // A thread that ends before it has loaded what it needs has no task yet.
    this.#piscina.on('error', ended);
    // The task lasts as long as the thread.
    this.#piscina.run(start, { transferList: [port2] }).then(ended, ended);
  }

  /** The kernel's number of it; undefined: it has not said it yet, since it starts; null: there is no /proc to know it from. */
  threadId(): number | null | undefined {
    const id = Atomics.load(this.#memory.words, THREAD_ID);
    if (id === ID_UNSAID) return undefined;
    return id === ID_UNKNOWN ? null : id;
  }

  /** Another scan could lie behind the one that it has begun a moment ago. */
  canTakeNext(sinceMs: number): boolean {
    if (this.scan === null || this.next !== null || this.sinceMs < sinceMs) return false;
    return this.hasStarted && !this.isGivenUp && this.#ring.hasRoom();
  }

  /** Behind what it has. It asks the engine that serves now. */
  post(scan: ThreadScan): void {
    const { content, sizeBytes, sha256 } = scan;
    const slot = this.#memory.slots[this.#ring.freeSlot];
    if (this.next !== null) throw new Error('The thread has no room for another scan');
    if (slot === undefined || content === null) throw new Error('There is nothing to scan');
    scan.engine = serving.engine;
    const { nativeEpoch, rules }: EngineWork = scan.engine?.work ?? NO_WORK;
    const { numbers: fields, digest } = slot;
    const isOnly = content.byteLength === content.buffer.byteLength;
    fields[FIELD.memory] = this.#numbers.get(content.buffer) ?? this.#introduce(content.buffer, isOnly);
    fields[FIELD.isOnly] = isOnly ? 1 : 0;
    fields[FIELD.offsetBytes] = content.byteOffset;
    fields[FIELD.sizeBytes] = sizeBytes;
    fields[FIELD.clamav] = nativeEpoch === null ? 0 : 1;
    if (rules !== null && rules.id !== this.#rulesId) this.#tell({ kind: 'rules', rules });
    if (rules !== null) this.#rulesId = rules.id;
    fields[FIELD.rulesId] = rules === null ? -1 : rules.id;
    fields[FIELD.hasDigest] = sha256 === null ? 0 : 1;
    if (sha256 !== null) digest.write(sha256, 'latin1');
    fields[FIELD.messages] = this.#messages;
    if (this.scan === null) this.scan = scan;
    else this.next = scan;
    this.#ring.post();
    wakeThread(this.#memory.words, this.#addon);
  }

  /** Takes back the scan that was posted behind another one; false: the thread has begun it. */
  takeBack(): boolean {
    if (!this.#ring.takeBack()) return false;
    this.next = null;
    return true;
  }

  /** It has let go of a scan. */
  hasAnswer(): boolean {
    return this.#ring.hasEnded();
  }

  /** The scan that it was at has what the thread says of it, and it is at the next one, if there is one; false: the thread has not let go of it. */
  takeAnswer(scan: ThreadScan, nowMs: number): boolean {
    const at = this.#ring.takeEnded();
    if (at === NO_SLOT) return false;
    const fields = this.#memory.slots[at]?.numbers ?? new Float64Array();
    const said: FromThread | null = fields[FIELD.told] === 1 ? receiveMessageOnPort(this.#port)?.message : null;
    if (said === undefined) throw new Error('A scan thread has answered without saying what');
    scan.said = said;
    scan.isOfAnother = scan.engine !== null && (fields[FIELD.epoch] || null) !== scan.engine.work.nativeEpoch;
    scan.lookedMs = fields[FIELD.durationMs] ?? 0;
    scan.detectedType = contentType(fields[FIELD.type] ?? 0);
    const endedMs = fields[FIELD.secondLookEndedMs] ?? 0;
    scan.secondLook = endedMs === 0 ? null : { beganMs: fields[FIELD.secondLookBeganMs] ?? 0, endedMs };
    this.scan = this.next;
    this.next = null;
    this.sinceMs = nowMs;
    this.watch = null;
    return true;
  }

  /** It gets only what the others leave of the processor. */
  lowerPriority(): void {
    const id = this.threadId();
    if (typeof id !== 'number' || this.usualNice !== null) return;
    try {
      const nice = getPriority(id);
      // Linux has priorities for threads, under the numbers that it gives them.
      setPriority(id, Math.min(constants.priority.PRIORITY_LOW, nice + LOW_NICE));
      this.usualNice = nice;
    } catch {
      // It goes on as it was.
    }
  }

  /** False: it stays lower. To give a thread its priority back takes rights that the service needn't have. */
  restorePriority(): boolean {
    const id = this.threadId();
    if (typeof id !== 'number' || this.usualNice === null) return true;
    try {
      setPriority(id, this.usualNice);
      this.usualNice = null;
      return true;
    } catch {
      return false;
    }
  }

  /** Ends the thread, once native code lets go of it. */
  async end(): Promise<void> {
    this.isEnding = true;
    const ended = this.#piscina.destroy();
    // It ends when it is back from native code.
    wakeThread(this.#memory.words, this.#addon);
    await ended;
  }

  /** The thread gets the number once for memory that later scans use as well. */
  #introduce(memory: SharedArrayBuffer, isOnly: boolean): number {
    const number = this.#memories++;
    if (!isOnly) this.#numbers.set(memory, number);
    this.#tell({ kind: 'memory', number, memory });
    return number;
  }

  #tell(message: ToThread): void {
    this.#port.postMessage(message);
    this.#messages += 1;
  }
}

const YOUNG_MB = 2;

function startPiscina(): Piscina<ThreadStart, never> {
  return new Piscina<ThreadStart, never>({
    filename: scanWorkerPath,
    name: 'serveScans',
    // The task starts it. With a minimum Piscina would put another one in the place of one that ends, and throw where nobody catches when it can't.
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: Number.POSITIVE_INFINITY,
    maxQueue: 1,
    // Piscina tries require() first. In Node 20 a thread that is ended while require() links an ES module ends the process: "IsGraphAsync must
    // be used on an instantiated module". Without it Piscina takes import(), which survives that.
    execArgv: ['--no-experimental-require-module'],
    // It makes next to nothing that lives, and would keep room for more.
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    // Histograms that nobody asks for: 0.7 MB for each thread.
    recordTiming: false,
  });
}

export interface WatchOptions {
  readonly scanTimeoutMs: number;
  /** A thread that comes back so long after the deadline is slow, not late. */
  readonly graceMs: number;
  /** It has had half of the deadline: another thread is to take its place. */
  readonly onGivenUp: (slot: ThreadSlot, scan: ThreadScan, nowMs: number) => void;
  /** Once, after it was late: whatever the machine does, this content won't end. */
  readonly onHung: (scan: ThreadScan) => void;
}

/** A thread that has been at one scan for so long gets what others leave of the cores, until its end. */
const LOWER_MS = 4_000;
/**
 * A thread is given up when it has been at a scan for this share of the deadline. If content that hangs held all threads until its
 * deadline, the scans that wait would miss theirs. libclamav gives up by itself before this share. With encrypted content, which it looks
 * at twice, it gives up before the deadline.
 */
const GIVEN_UP_SHARE = 0.5;
/** A content hangs when its thread, after it was given up, has taken this share of the deadline once more. */
const HUNG_SHARE = 0.5;
/** Looks between the half of the deadline and its end. */
const LOOKS = 30;
const LOOK_LEAST_MS = 50;

/** Returns what is to be called for each thread, again and again. */
export function createWatch(options: WatchOptions): (slot: ThreadSlot, nowMs: number) => void {
  const { scanTimeoutMs, graceMs, onGivenUp, onHung } = options;
  const halfMs = scanTimeoutMs * GIVEN_UP_SHARE;
  const everyMs = Math.max(LOOK_LEAST_MS, halfMs / LOOKS);
  return (slot, nowMs) => {
    const { scan, watch } = slot;
    if (scan === null) return;
    const takenMs = nowMs - slot.sinceMs;
    if (takenMs >= LOWER_MS) slot.lowerPriority();
    if (watch !== null) {
      if (watch.look(slot.threadId(), nowMs)) onHung(scan);
    } else if (takenMs >= halfMs) {
      // It comes too late where this process has stood still: then the thread has not had its half yet.
      const hungMs = scanTimeoutMs * HUNG_SHARE + Math.min(takenMs - halfMs, halfMs);
      const lateAtMs = nowMs + scanTimeoutMs - halfMs + graceMs;
      slot.watch = new HangWatch(slot.threadId(), nowMs, { lateAtMs, everyMs, hungMs });
      if (!slot.isGivenUp) onGivenUp(slot, scan, nowMs);
    }
  };
}

interface ThreadSample {
  readonly id: number | null | undefined;
  readonly atMs: number;
  readonly thread: ThreadTime | null;
}

/** What the kernel says of a thread that does not come back. */
interface ThreadTime {
  /** Processor time that the thread has used since it began, to some 10 ms. */
  readonly usedMs: number;
  /** It waits for something, but not for a processor, a disk or swapped memory. */
  readonly isAsleep: boolean;
}

/** The kernel's clock tick, which Linux tells programs as 100 in a second on every architecture (USER_HZ). */
const TICK_MS = 10;

/**
 * What counts is processor time, and time asleep while this process runs. libclamav measures real time: if it can end a content by itself at
 * all, it does so before that, even on an overloaded machine. A process that stands still says nothing of the content, nor does a thread that
 * waits for a processor, a disk or swapped memory.
 */
export class HangWatch {
  /** The thread is not back long after the deadline. */
  isLate = false;
  isHung = false;
  readonly #lateAtMs: number;
  readonly #everyMs: number;
  readonly #hungMs: number;
  #last: ThreadSample;
  #takenMs = 0;

  /** `hungMs`: a content whose thread has taken so much more since now hangs. */
  constructor(id: ThreadSample['id'], nowMs: number, times: { lateAtMs: number; everyMs: number; hungMs: number }) {
    this.#lateAtMs = times.lateAtMs;
    this.#everyMs = times.everyMs;
    this.#hungMs = times.hungMs;
    this.#last = sampleOf(id, nowMs);
  }

  /** Looks when it is time to. True, once: the content hangs. */
  look(id: ThreadSample['id'], nowMs: number): boolean {
    const last = this.#last;
    const passedMs = nowMs - last.atMs;
    if (passedMs < this.#everyMs || this.isHung) return false;
    const now = sampleOf(id, nowMs);
    // This process has had no turn, or has stood still.
    const isTooLate = passedMs > 2 * this.#everyMs;
    if (last.thread !== null && now.thread !== null) {
      const workedMs = now.thread.usedMs - last.thread.usedMs;
      const hasSlept = last.thread.isAsleep && now.thread.isAsleep && !isTooLate;
      this.#takenMs += hasSlept ? Math.max(passedMs, workedMs) : workedMs;
    } else if (last.id !== undefined && !isTooLate) {
      // Where the kernel says nothing the clock has to do. A thread that has yet to start has not even seen the content.
      this.#takenMs += passedMs;
    }
    this.#last = now;
    this.isLate = nowMs >= this.#lateAtMs;
    this.isHung = this.isLate && this.#takenMs >= this.#hungMs;
    return this.isHung;
  }
}

function sampleOf(id: ThreadSample['id'], atMs: number): ThreadSample {
  return { id, atMs, thread: typeof id === 'number' ? threadTime(id) : null };
}

/** Null: the kernel doesn't say it, or the thread is gone. See proc(5), /proc/pid/stat. */
function threadTime(id: number): ThreadTime | null {
  let text: string;
  try {
    text = readFileSync(`/proc/self/task/${id}/stat`, 'latin1');
  } catch {
    return null;
  }
  // The name before it may have spaces and parentheses in it.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return Number.isNaN(ticks) ? null : { usedMs: ticks * TICK_MS, isAsleep: fields[0] === 'S' };
}
