// Turns at something that is bounded: parties that share it (accounts, addresses) go by the time that each has used. Who asks for more than the others waits behind
// them, and is refused first. And shares: how many each has at a time.
import { performance } from 'node:perf_hooks';

export interface TurnLimits {
  /** At one time: of all, and of one party. */
  readonly running: number;
  readonly runningEach: number;
  /** Work that waits: of all, and of one party. */
  readonly waiting: number;
  readonly waitingEach: number;
  readonly waitMs: number;
}

export interface TurnRules extends TurnLimits {
  /** For work that finds no place to wait. */
  readonly full: () => Error;
  /** For work that has waited too long. */
  readonly late: () => Error;
  /** Whether there is what a turn needs beside the bounds; default: there is. */
  readonly hasRoom?: () => boolean;
  /** A turn lasts so long at least, though its work may be over sooner, and its outcome known: who asks without end has so many turns a second. Default: 0. */
  readonly leastMs?: number;
  /** Called after each turn, in the place of `serve`: for turns that share what they need with others. */
  readonly onEnd?: () => void;
}

/** Whose turn it is: an account, or an address and what it names there. The first is a party among all, the next one among that party's. */
export type Who = readonly [string, ...string[]];

/** Parties that rest are remembered only while they have used more than the others. */
const PARTIES_SWEPT = 1_000;

class Waiter {
  readonly party: Party;
  readonly begin: () => void;
  readonly refuse: (error: Error) => void;
  timer: NodeJS.Timeout | null = null;

  constructor(party: Party, begin: () => void, refuse: (error: Error) => void) {
    this.party = party;
    this.begin = begin;
    this.refuse = refuse;
  }
}

class Party {
  readonly name: string;
  readonly above: Party | null;
  readonly below = new Map<string, Party>();
  readonly waiters = new Set<Waiter>();
  /** Of this one and all below it. */
  running = 0;
  waiting = 0;
  /** What it has used, in ms of turns, compared with those beside it. */
  usedMs = 0;
  /** What the last one below had used when its turn came: who comes back has no credit for its absence. */
  floorMs = 0;

  constructor(name: string, above: Party | null) {
    this.name = name;
    this.above = above;
  }

  get rests(): boolean {
    return this.running === 0 && this.waiting === 0;
  }

  find(name: string): Party {
    let party = this.below.get(name);
    if (party === undefined) {
      if (this.below.size >= PARTIES_SWEPT) this.sweep();
      party = new Party(name, this);
      this.below.set(name, party);
    }
    if (party.rests) party.usedMs = Math.max(party.usedMs, this.floorMs);
    return party;
  }

  /** Of those that may have a turn, the one with the fewest at one time, then the one that has used least. */
  next(runningEach: number): Party | null {
    let next: Party | null = null;
    for (const party of this.below.values()) {
      if (party.waiting === 0 || party.running >= runningEach) continue;
      const isBefore =
        next === null || party.running < next.running || (party.running === next.running && party.usedMs < next.usedMs);
      if (isBefore) next = party;
    }
    return next;
  }

  /** Of those below, the one that wants most: more than this one, where it is named. */
  greediest(than: Party | null): Party | null {
    let greediest = than;
    for (const party of this.below.values()) {
      if (greediest === null || party.waiting > greediest.waiting) greediest = party;
    }
    return greediest;
  }

  /** The work that came last of those that want most. */
  last(): Waiter | null {
    return this.greediest(null)?.last() ?? [...this.waiters].at(-1) ?? null;
  }

  forget(): void {
    if (this.above !== null && this.rests && this.usedMs <= this.above.floorMs) this.above.below.delete(this.name);
  }

  private sweep(): void {
    const resting = [...this.below.values()].filter((party) => party.rests);
    for (const party of resting) this.below.delete(party.name);
  }
}

export class FairTurns {
  private readonly rules: TurnRules;
  private readonly all = new Party('', null);
  private readonly onEnd: () => void;

  constructor(rules: TurnRules) {
    this.rules = rules;
    this.onEnd = rules.onEnd ?? (() => this.serve());
  }

  /** Does the work when it has its turn. Rejects as the rules say when there is no place to wait, or no turn in time. */
  run<T>(who: Who, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const party = who.reduce<Party>((above, name) => above.find(name), this.all);
      const waiter = new Waiter(party, () => resolve(this.turn(party, work)), reject);
      change(party, 'waiting', 1);
      party.waiters.add(waiter);
      this.serve();
      if (!party.waiters.has(waiter)) return;
      const { waitMs, late } = this.rules;
      waiter.timer = setTimeout(() => this.refuse(waiter, late()), waitMs);
      this.bound(waiter);
    });
  }

  /** Gives turns to those who wait, as far as there is room. */
  serve(): void {
    const { running, runningEach, hasRoom } = this.rules;
    while (this.all.running < running && this.all.waiting > 0 && (hasRoom === undefined || hasRoom())) {
      const waiter = this.next(runningEach);
      if (waiter === null) return;
      this.leave(waiter);
      waiter.begin();
    }
  }

  private next(runningEach: number): Waiter | null {
    let party = this.all;
    while (party.waiters.size === 0) {
      const next = party.next(runningEach);
      if (next === null) return null;
      party = next;
    }
    for (let at = party; at.above !== null; at = at.above) at.above.floorMs = Math.max(at.above.floorMs, at.usedMs);
    const [waiter = null] = party.waiters;
    return waiter;
  }

  private async turn<T>(party: Party, work: () => Promise<T>): Promise<T> {
    change(party, 'running', 1);
    const beganMs = performance.now();
    try {
      return await work();
    } finally {
      const leftMs = (this.rules.leastMs ?? 0) - (performance.now() - beganMs);
      if (leftMs > 0) setTimeout(() => this.end(party, beganMs), leftMs);
      else this.end(party, beganMs);
    }
  }

  private end(party: Party, beganMs: number): void {
    change(party, 'running', -1);
    const usedMs = performance.now() - beganMs;
    for (let at = party; at.above !== null; at = at.above) {
      at.usedMs += usedMs;
      at.forget();
    }
    this.onEnd();
  }

  /** Where too many wait, the one that came last of those that want most is refused: it may be this one. */
  private bound(waiter: Waiter): void {
    const { waiting, waitingEach, full } = this.rules;
    let victim = waiter;
    for (let mine = waiter.party; mine.above !== null; mine = mine.above) {
      if (mine.waiting > waitingEach) {
        this.refuse(victim, full());
        return;
      }
      const greediest = mine.above.greediest(mine);
      if (greediest !== mine) victim = greediest?.last() ?? waiter;
    }
    if (this.all.waiting > waiting) this.refuse(victim, full());
  }

  private refuse(waiter: Waiter, error: Error): void {
    this.leave(waiter);
    for (let at: Party | null = waiter.party; at !== null; at = at.above) at.forget();
    waiter.refuse(error);
  }

  private leave(waiter: Waiter): void {
    if (waiter.timer !== null) clearTimeout(waiter.timer);
    waiter.party.waiters.delete(waiter);
    change(waiter.party, 'waiting', -1);
  }
}

/** Of a party and of all that it belongs to. */
function change(party: Party, count: 'running' | 'waiting', by: number): void {
  for (let at: Party | null = party; at !== null; at = at.above) at[count] += by;
}

/** What each has of something that is shared, within a bound. */
export class Shares {
  readonly #mostEach: number;
  readonly #most: number;
  readonly #taken = new Map<string, number>();
  /** Of all together. */
  all = 0;

  constructor(mostEach: number, most: number = Number.POSITIVE_INFINITY) {
    this.#mostEach = mostEach;
    this.#most = most;
  }

  /** False: it would be more than it may have, or than all may have together. */
  take(name: string, amount = 1): boolean {
    if ((this.#taken.get(name) ?? 0) + amount > this.#mostEach || this.all + amount > this.#most) return false;
    this.count(name, amount);
    return true;
  }

  /** What is there already, whether or not it is within the bound. */
  count(name: string, amount: number): void {
    this.#taken.set(name, (this.#taken.get(name) ?? 0) + amount);
    this.all += amount;
  }

  /** Once for each that was taken. */
  giveBack(name: string, amount = 1): void {
    const left = (this.#taken.get(name) ?? amount) - amount;
    if (left > 0) this.#taken.set(name, left);
    else this.#taken.delete(name);
    this.all -= amount;
  }
}
