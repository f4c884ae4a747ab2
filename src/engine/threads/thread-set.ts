// Which scan threads a lane has: the set, in the place of each that is given up another one, and a few beside the set while scans take long.
import { messageOfError } from '../../error-text.js';
import { serving } from '../engine.js';
import type { BellRope } from './bell.js';
import { LONG_MS } from './fair-queue.js';
import type { ThreadSettings } from './task.js';
import type { ThreadScan } from './thread-scan.js';
import { ThreadSlot, type ThreadSlotOptions } from './thread-slot.js';

export interface ThreadSetOptions {
  /** Threads of the set. */
  readonly count: number;
  /** With those beside it; threads that are given up aside. */
  readonly most: number;
  /** So long threads beside the set are kept after the last time that one was wanted. */
  readonly keepMs: number;
  readonly settings: ThreadSettings;
  /** For content over 1 MB: none is open before it is pressed, and what is not wanted ends. Otherwise the set is open from the beginning. */
  readonly isHeavy: boolean;
  /** Rung when there are answers to take. */
  readonly bell: BellRope;
  /** Of the file of what is being scanned: those that threads have, of all sets. */
  readonly places: boolean[];
  /** Another thread can be taken than one that was put back. */
  readonly onIdle: () => void;
  /** The thread of this scan has ended before it. */
  readonly onDied: (scan: ThreadScan) => void;
  /** A thread that is wanted can't be started. It is tried again. */
  readonly onLack: (reason: string) => void;
}

/** Between a thread that couldn't be started and the next try. */
const RETRY_MS = 500;

export class ThreadSet {
  /** All of them, also those that start and those that are given up. */
  slots: readonly ThreadSlot[] = [];
  /** Threads at scans; those that are given up aside. */
  busy = 0;
  /** Of the set. As many are replaced as it has, at most, since each that hangs costs a core. */
  size: number;
  /** Of those beside the set, so many are made before anything waits for them. Large content takes longer than a thread to start. */
  readonly #ahead: number;
  readonly #options: ThreadSetOptions;
  /** The one that had a scan last comes last. */
  readonly #idle: ThreadSlot[] = [];
  /** Threads beside the set are wanted, or were a moment ago. */
  #isPressed = false;
  /** Beside those that are always there: one, once any was wanted, since to start a thread beside long scans takes a tenth of a second and more. */
  #kept = 0;
  /** The most that were busy since the last look. */
  #peak = 0;
  #keeping: NodeJS.Timeout | null = null;
  #givenUp = 0;
  /** Why none could be started, since one has; at first none has yet. */
  #lack: string | null = 'No scan thread has started yet';
  #isStopped = false;

  constructor(options: ThreadSetOptions) {
    this.#options = options;
    this.size = options.count;
    this.#ahead = options.isHeavy ? 0 : 1;
    // Scans may lie in their rings before they have started.
    for (let index = 0; index < this.#always; index += 1) this.#idle.push(this.#open(false));
  }

  get hasStarted(): boolean {
    return this.slots.some(({ hasStarted }) => hasStarted);
  }

  /** Why nothing can be scanned until another thread starts; null: it can, or one starts in the place of one that was given up. */
  get problem(): string | null {
    if (this.slots.some(({ hasStarted, isGivenUp }) => hasStarted && !isGivenUp)) return null;
    return this.#lack ?? (this.size === 0 ? 'All scan threads hang' : null);
  }

  /** As many as the set has are at scans or idle: no more of them start. */
  get isWhole(): boolean {
    return this.busy + this.#idle.length >= this.size;
  }

  get hasIdle(): boolean {
    return this.#idle.length > 0;
  }

  /** Of the set one can be taken. */
  get isFree(): boolean {
    return this.#idle.length > 0 && this.busy < this.size;
  }

  /** So many beside the set could be taken, if they were there. */
  get room(): number {
    return this.size + this.#options.most - this.#options.count - this.busy;
  }

  /** How long as many threads as the set has, at least, have been at their scans; 0: one of the set has none, or they are at short ones. */
  spanMs(nowMs: number): number {
    const { slots, busy } = this;
    const count = Math.max(1, this.size);
    if (busy < this.size) return 0;
    let young = 0;
    for (const { scan, isGivenUp, sinceMs } of slots) {
      if (scan !== null && !isGivenUp && nowMs - sinceMs < LONG_MS) young += 1;
    }
    if (young >= count) return 0;
    const ages: number[] = [];
    for (const { scan, isGivenUp, sinceMs } of slots) if (scan !== null && !isGivenUp) ages.push(nowMs - sinceMs);
    ages.sort((one, other) => one - other);
    return ages[count - 1] ?? 0;
  }

  take(): ThreadSlot {
    const slot = this.#idle.pop();
    if (slot === undefined) throw new Error('No thread is idle');
    this.busy += 1;
    this.#peak = Math.max(this.#peak, this.busy);
    if (this.#isPressed) this.#fill();
    return slot;
  }

  /** It has no scan any more. */
  putBack(slot: ThreadSlot): void {
    // The thread that took its place stays.
    if (slot.isGivenUp) this.#countGivenUp(-1);
    else this.busy -= 1;
    if (!slot.isGivenUp && (slot.usualNice === null || slot.restorePriority())) this.#idle.push(slot);
    else this.#end(slot);
  }

  /** Another thread takes its place. */
  giveUp(slot: ThreadSlot): void {
    slot.isGivenUp = true;
    slot.lowerPriority();
    this.busy -= 1;
    this.#countGivenUp(1);
    this.#fill();
  }

  /** Further threads are wanted: those of the set, and the next one ahead. `isAwaited`: a scan waits for the next one. */
  press(isAwaited = false): void {
    this.#isPressed = true;
    this.#kept = 1;
    this.#keeping ??= setTimeout(() => this.#look(), this.#options.keepMs).unref();
    this.#fill(isAwaited ? 1 : this.#ahead);
  }

  /** Ends all but those that are given up: native code can't be stopped from outside. False: there are such. */
  async stop(): Promise<boolean> {
    this.#isStopped = true;
    if (this.#keeping !== null) clearTimeout(this.#keeping);
    const ending = this.slots.filter(({ isGivenUp }) => !isGivenUp);
    const areAll = ending.length === this.slots.length;
    await Promise.all(ending.map((slot) => slot.end()));
    return areAll;
  }

  /** A thread that starts can be taken when it has said its number. */
  welcome(slot: ThreadSlot): void {
    slot.hasStarted = true;
    this.#lack = null;
    if (slot.scan === null && !slot.isEnding && !this.#idle.includes(slot)) this.#idle.push(slot);
  }

  #countGivenUp(more: number): void {
    const { count } = this.#options;
    this.#givenUp += more;
    this.size = Math.max(0, Math.min(count, 2 * count - this.#givenUp));
  }

  /** Of the set, those that are open whatever is wanted. */
  get #always(): number {
    return this.#options.isHeavy ? 0 : this.size;
  }

  /** How many there are to be, with so many at scans. */
  #wanted(busy: number, ahead: number = this.#ahead): number {
    const { count, most } = this.#options;
    const wanted = this.#isPressed ? Math.max(this.size, busy + ahead) : busy;
    return this.#givenUp + Math.min(this.size + most - count, Math.max(this.#always + this.#kept, wanted));
  }

  #fill(ahead: number = this.#ahead): void {
    const wanted = this.#wanted(this.busy, ahead);
    while (this.slots.length < wanted && !this.#isStopped) {
      try {
        this.#open(true);
      } catch (error) {
        this.#lacks(error);
        return;
      }
    }
  }

  #lacks(reason: unknown): void {
    this.#lack = messageOfError(reason);
    this.#options.onLack(this.#lack);
    // There may be no other thread left whose return would lead to a next try.
    setTimeout(() => this.#fill(), RETRY_MS).unref();
  }

  /** Ends idle ones beside the set that were not wanted for long. */
  #look(): void {
    this.#keeping = null;
    this.#isPressed &&= this.#peak > this.#always;
    const wanted = this.#wanted(this.#isPressed ? this.#peak : this.busy);
    this.#peak = this.busy;
    while (this.slots.length > wanted) {
      const slot = this.#idle.shift();
      if (slot === undefined) break;
      this.#end(slot);
    }
    if (this.#isPressed || this.slots.length > wanted)
      this.#keeping = setTimeout(() => this.#look(), this.#options.keepMs).unref();
  }

  /** `isFurther`: it is wanted for scans that come, and not there from the beginning. It is confined ahead where ClamAV serves: its folder is there then. */
  #open(isFurther: boolean): ThreadSlot {
    const { settings, bell, places, isHeavy } = this.#options;
    const found = places.indexOf(false);
    const place = found === -1 ? places.length : found;
    const urgency = isHeavy ? 'heavy' : isFurther ? 'standIn' : 'light';
    const isConfinedAhead = isFurther && (serving.engine?.work.nativeEpoch ?? null) !== null;
    const onExit = (slot: ThreadSlot, reason: unknown): void => this.#onExit(slot, reason);
    const slot = startThread({ place, bell, settings, urgency, isConfinedAhead, onExit });
    places[place] = true;
    this.slots = [...this.slots, slot];
    return slot;
  }

  #end(slot: ThreadSlot): void {
    this.#remove(slot);
    void slot.end();
    this.#fill();
  }

  #remove(slot: ThreadSlot): void {
    this.slots = this.slots.filter((one) => one !== slot);
    const at = this.#idle.indexOf(slot);
    if (at !== -1) this.#idle.splice(at, 1);
  }

  #onExit(slot: ThreadSlot, reason: unknown): void {
    this.#options.places[slot.place] = false;
    if (slot.isEnding) return;
    this.#remove(slot);
    const { scan, next } = slot;
    if (scan !== null && slot.isGivenUp) this.#countGivenUp(-1);
    else if (scan !== null) this.busy -= 1;
    for (const one of [scan, next]) if (one !== null) this.#options.onDied(one);
    if (slot.hasStarted) this.#fill();
    else this.#lacks(reason);
    this.#options.onIdle();
  }
}

function startThread(options: ThreadSlotOptions): ThreadSlot {
  try {
    return new ThreadSlot(options);
  } catch (error) {
    throw new Error(`A scan thread can't be started: ${messageOfError(error)}`, { cause: error });
  }
}
