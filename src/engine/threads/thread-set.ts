// Which scan threads there are: the set, in the place of each that is given up another one, and a few beside the set while scans take long.
import { servingNow } from '../serving.js';
import { startBell } from './bell.js';
import type { ThreadSettings } from './task.js';
import type { ThreadScan } from './thread-scan.js';
import { ThreadSlot } from './thread-slot.js';

export interface ThreadSetOptions {
  /** Threads of the set, open from the beginning. */
  readonly count: number;
  /** With those beside it; threads that are given up aside. */
  readonly most: number;
  /** So long threads beside the set are kept after the last time that one was wanted. */
  readonly keepMs: number;
  readonly settings: ThreadSettings;
  /** There are answers to take. */
  readonly onRing: () => void;
  /** Another thread can be taken than one that was put back. */
  readonly onIdle: () => void;
  /** The thread of this scan has ended before it. */
  readonly onDied: (scan: ThreadScan) => void;
}

/** Between a thread that couldn't be started and the next try. */
const RETRY_MS = 500;

export class ThreadSet {
  /** All of them, also those that start and those that are given up. */
  slots: readonly ThreadSlot[] = [];
  /** Threads at scans; those that are given up aside. */
  busy = 0;
  givenUp = 0;
  readonly #options: ThreadSetOptions;
  readonly #bell: ReturnType<typeof startBell>;
  /** The one that had a scan last comes last. */
  readonly #idle: ThreadSlot[] = [];
  /** Of the file of what is being scanned. */
  readonly #places: boolean[] = [];
  /** Threads beside the set are wanted, or were a moment ago. */
  #isPressed = false;
  /** Beside the set, always: one, once any was wanted, since to start a thread beside long scans takes a tenth of a second and more. */
  #kept = 0;
  /** The most that were busy since the last look. */
  #peak = 0;
  #keeping: NodeJS.Timeout | null = null;
  #isStopped = false;

  constructor(options: ThreadSetOptions) {
    this.#options = options;
    this.#bell = startBell(options.onRing);
    // Scans may lie in their rings before they have started.
    for (let index = 0; index < options.count; index += 1) this.#idle.push(this.#open(false));
  }

  /** As many are replaced as the set has, at most, since each that hangs costs a core. */
  get size(): number {
    return Math.max(0, Math.min(this.#options.count, 2 * this.#options.count - this.givenUp));
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
    if (slot.isGivenUp) this.givenUp -= 1;
    else this.busy -= 1;
    if (!slot.isGivenUp && slot.restorePriority()) this.#idle.push(slot);
    else this.#end(slot);
  }

  /** Another thread takes its place. */
  giveUp(slot: ThreadSlot): void {
    slot.isGivenUp = true;
    slot.lowerPriority();
    this.busy -= 1;
    this.givenUp += 1;
    this.#fill();
  }

  /** Threads beside the set are wanted: they are made ahead, as many as the set has. */
  press(): void {
    this.#isPressed = true;
    this.#kept = 1;
    this.#keeping ??= setTimeout(() => this.#look(), this.#options.keepMs).unref();
    this.#fill();
  }

  /** Ends all but those that are given up: native code can't be stopped from outside. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#keeping !== null) clearTimeout(this.#keeping);
    const ending = this.slots.filter(({ isGivenUp }) => !isGivenUp);
    const areAll = ending.length === this.slots.length;
    await Promise.all(ending.map((slot) => slot.end()));
    if (areAll) this.#bell.stop();
  }

  /** A thread that starts can be taken when it has said its number. */
  welcome(slot: ThreadSlot): void {
    slot.hasStarted = true;
    if (slot.scan === null && !slot.isEnding && !this.#idle.includes(slot)) this.#idle.push(slot);
  }

  /** How many there are to be now. */
  #wanted(spare: number, busy: number): number {
    const { count, most } = this.#options;
    const { size } = this;
    return this.givenUp + Math.min(size + most - count, Math.max(size + this.#kept, busy + spare));
  }

  #fill(): void {
    const wanted = this.#wanted(this.#isPressed ? this.#options.count : 0, this.busy);
    while (this.slots.length < wanted && !this.#isStopped) {
      try {
        this.#open(true);
      } catch {
        this.#tryLater();
        return;
      }
    }
  }

  /** There may be no other thread left whose return would lead to a next try. */
  #tryLater(): void {
    setTimeout(() => this.#fill(), RETRY_MS).unref();
  }

  /** Ends idle ones beside the set that were not wanted for long. */
  #look(): void {
    this.#keeping = null;
    const isWanted = this.#isPressed && this.#peak > this.size;
    const wanted = isWanted ? this.#wanted(this.#options.count, this.#peak) : this.#wanted(0, this.busy);
    this.#peak = this.busy;
    this.#isPressed = isWanted;
    while (this.slots.length > wanted) {
      const slot = this.#idle.shift();
      if (slot === undefined) break;
      this.#end(slot);
    }
    if (isWanted || this.slots.length > wanted)
      this.#keeping = setTimeout(() => this.#look(), this.#options.keepMs).unref();
  }

  /** `isFurther`: others are at scans already. It is confined ahead where ClamAV serves: its folder is there then. */
  #open(isFurther: boolean): ThreadSlot {
    const found = this.#places.indexOf(false);
    const place = found === -1 ? this.#places.length : found;
    const { settings } = this.#options;
    const bell = this.#bell.rope;
    const isConfinedAhead = isFurther && (servingNow()?.work.nativeEpoch ?? null) !== null;
    const onExit = (slot: ThreadSlot): void => this.#onExit(slot);
    const slot = new ThreadSlot({ place, bell, settings, isFurther, isConfinedAhead, onExit });
    this.#places[place] = true;
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

  #onExit(slot: ThreadSlot): void {
    this.#places[slot.place] = false;
    if (slot.isEnding) return;
    this.#remove(slot);
    const { scan, next } = slot;
    if (scan !== null && slot.isGivenUp) this.givenUp -= 1;
    else if (scan !== null) this.busy -= 1;
    for (const one of [scan, next]) if (one !== null) this.#options.onDied(one);
    if (slot.hasStarted) this.#fill();
    else this.#tryLater();
    this.#options.onIdle();
  }
}
