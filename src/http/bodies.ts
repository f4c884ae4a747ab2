// Request bodies that are no uploads: the memory that they may take together, and what becomes of those behind a refusal. What still
// arrives of a refused body is read and dropped, since a client that reads last gets its answer only then. All of these bodies have one
// bounded rate, and the addresses that they come from take turns; a client that sends faster waits in the kernel.
import {
  BODIES_BYTES,
  BODIES_RESERVE_BYTES,
  DRAIN_BURST_BYTES,
  DRAIN_BYTES,
  DRAIN_BYTES_PER_SECOND,
  DRAIN_LATE_MS,
  DRAIN_MS,
  DRAIN_SHORT_BYTES,
  DRAIN_SILENCE_MS,
  DRAIN_TURN_MS,
  DRAIN_TURN_READS,
} from '../limits.js';
import { CoarseTimer, type TimerOwner } from '../waiting/coarse-timer.js';

/** A request that was refused before all of its body was there. */
export interface Drained {
  readonly isVouchedFor: boolean;
  remoteAddress(): string;
  pauseBody(): void;
  resumeBody(): void;
  /** The client is silent, or a bound is reached. */
  endDrain(): void;
}

/** What all of them share. */
export class Drains {
  readonly #groupOf: (address: string) => string;
  readonly #clock: () => number;
  /** Below nothing where the last read was larger than what was left. */
  #roomBytes = DRAIN_BURST_BYTES;
  #filledMs: number;
  /** By party; both in their turn. */
  readonly #waiting = new Map<string, Set<Drain>>();
  #isArmed = false;

  /** `groupOf`: what counts as one address. `clock`: milliseconds that only grow. */
  constructor(groupOf: (address: string) => string, clock: () => number) {
    this.#groupOf = groupOf;
    this.#clock = clock;
    this.#filledMs = clock();
  }

  /** `restBytes`: what is left of the body; null: nobody knows. `isLate`: it has had its time. */
  begin(owner: Drained, restBytes: number | null, isLate: boolean): Drain {
    const group = this.#groupOf(owner.remoteAddress());
    // Accounts don't wait behind strangers who share their proxy.
    const party = owner.isVouchedFor ? `known ${group}` : group;
    const isShort = restBytes !== null && restBytes <= DRAIN_SHORT_BYTES;
    return new Drain(owner, this, { party, isShort, withinMs: isLate ? DRAIN_LATE_MS : DRAIN_MS });
  }

  /** Counts what was read; false: more is not to be read for now. */
  read(bytes: number): boolean {
    this.#fill();
    this.#roomBytes -= bytes;
    return this.#roomBytes > 0;
  }

  wait(drain: Drain): void {
    const others = this.#waiting.get(drain.party);
    if (others === undefined) this.#waiting.set(drain.party, new Set([drain]));
    else others.add(drain);
    this.#arm();
  }

  forget(drain: Drain): void {
    const drains = this.#waiting.get(drain.party);
    if (drains?.delete(drain) && drains.size === 0) this.#waiting.delete(drain.party);
  }

  /** Lets some be read once more, as far as there is room. */
  serve(): void {
    this.#fill();
    for (let reads = 0; reads < DRAIN_TURN_READS && this.#roomBytes > 0; reads += 1) {
      const [next] = this.#waiting;
      if (next === undefined) return;
      const [party, drains] = next;
      this.#waiting.delete(party);
      const [drain] = drains;
      if (drain === undefined) continue;
      drains.delete(drain);
      if (drains.size > 0) this.#waiting.set(party, drains);
      drain.resume();
    }
  }

  #fill(): void {
    const nowMs = this.#clock();
    const filled = this.#roomBytes + ((nowMs - this.#filledMs) / 1000) * DRAIN_BYTES_PER_SECOND;
    this.#roomBytes = Math.min(filled, DRAIN_BURST_BYTES);
    this.#filledMs = nowMs;
  }

  #arm(): void {
    if (this.#isArmed) return;
    this.#isArmed = true;
    setTimeout(() => {
      this.#isArmed = false;
      this.serve();
      if (this.#waiting.size > 0) this.#arm();
    }, DRAIN_TURN_MS);
  }
}

interface DrainTerms {
  /** Who waits for its turn as one. */
  readonly party: string;
  /** It doesn't wait: a request goes before each, and has its turn (turns.ts). */
  readonly isShort: boolean;
  readonly withinMs: number;
}

/** The rest of one body. */
export class Drain implements TimerOwner {
  readonly party: string;
  readonly #owner: Drained;
  readonly #drains: Drains;
  readonly #isShort: boolean;
  #bytes = 0;
  readonly #silence = new CoarseTimer(this);
  readonly #end: NodeJS.Timeout;

  constructor(owner: Drained, drains: Drains, { party, isShort, withinMs }: DrainTerms) {
    this.party = party;
    this.#isShort = isShort;
    this.#owner = owner;
    this.#drains = drains;
    this.#end = setTimeout(() => owner.endDrain(), withinMs);
    this.read(0);
  }

  /** So much has come, and was dropped. */
  read(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > DRAIN_BYTES) this.#owner.endDrain();
    else if (this.#drains.read(bytes) || this.#isShort) this.resume();
    else this.#wait();
  }

  #wait(): void {
    this.#silence.stop();
    this.#owner.pauseBody();
    this.#drains.wait(this);
  }

  resume(): void {
    this.#owner.resumeBody();
    this.#silence.start(DRAIN_SILENCE_MS);
  }

  onDue(): void {
    this.#owner.endDrain();
  }

  stop(): void {
    this.#silence.stop();
    clearTimeout(this.#end);
    this.#drains.forget(this);
  }
}

/** `open`: for strangers too; `whole`: with the reserve that strangers can't use up. */
type BudgetPart = 'open' | 'whole';

/** Where bytes of bodies count. */
export type BodyRoom = Pick<BodyBudget, 'take' | 'giveBack'>;

export class BodyBudget {
  #heldBytes = 0;

  /** Takes so many bytes; false: there is no room, and nothing was taken. */
  take(bytes: number, part: BudgetPart): boolean {
    const limitBytes = part === 'whole' ? BODIES_BYTES : BODIES_BYTES - BODIES_RESERVE_BYTES;
    if (this.#heldBytes + bytes > limitBytes) return false;
    this.#heldBytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#heldBytes -= bytes;
  }
}
