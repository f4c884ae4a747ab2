// Contents that wait for memory: the account that has least comes first, in an account the oldest content; and what ends a wait.
import { type Failure, Unavailable } from '../../errors.js';
import type { AccountMemory, Content } from '../content.js';

interface WaitingLineParts {
  readonly now: () => number;
  readonly tooMany: Failure;
  readonly accounts: ReadonlyMap<string, AccountMemory>;
  /** Gives what it needs now, if its account may have that. */
  readonly tryGrow: (account: AccountMemory, content: Content) => boolean;
  /** Gives all that it may still need, if the finishing room has it. */
  readonly tryFinish: (account: AccountMemory, content: Content) => boolean;
  /** It is others who have what it waits for, not its own account. */
  readonly isHeldUp: (account: AccountMemory, content: Content) => boolean;
  /** How many bytes it waits for. */
  readonly stepOf: (content: Content) => number;
  readonly relabel: () => void;
}

/** How exactly times are kept. */
const TICK_MS = 100;
/** A content that is held up by accounts with more than its own waits so long for them to end by themselves. */
const PATIENCE_MS = 1_000;

export class WaitingLine {
  /** Contents that wait; only this line writes to it. */
  size = 0;
  /** Contents that were ended because another account waited for what they held. */
  ended = 0;
  readonly #parts: WaitingLineParts;
  readonly #waiting = new Map<Content, AccountMemory>();
  #timer: NodeJS.Timeout | null = null;

  constructor(parts: WaitingLineParts) {
    this.#parts = parts;
  }

  /** True: it was served at once, and is not called back. */
  join(account: AccountMemory, content: Content): boolean {
    if (this.#waiting.has(content)) return false;
    this.#add(account, content);
    this.#serve(content);
    return !this.#waiting.has(content);
  }

  /** Gives what has come free to those whose turn it is. */
  serve(): void {
    this.#serve(null);
  }

  #add(account: AccountMemory, content: Content): void {
    this.#waiting.set(content, account);
    this.size = this.#waiting.size;
    content.waitingSinceMs = this.#parts.now();
    content.countedMs = content.waitingSinceMs;
    const lane = laneOf(account, content);
    const before = lane.findLastIndex(({ number }) => number < content.number);
    lane.splice(before + 1, 0, content);
    content.isHeldUp = this.#waitsForOthers(account, content);
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS);
  }

  /** Who is behind the head of its lane waits for what the head waits for. */
  #waitsForOthers(account: AccountMemory, content: Content): boolean {
    return this.#parts.isHeldUp(account, laneOf(account, content)[0] ?? content);
  }

  leave(content: Content): void {
    const account = this.#waiting.get(content);
    if (account === undefined) return;
    this.#waiting.delete(content);
    this.size = this.#waiting.size;
    count(content, this.#parts.now());
    const lane = laneOf(account, content);
    lane.splice(lane.indexOf(content), 1);
    if (this.#waiting.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  #poorestFirst(): readonly AccountMemory[] {
    return [...new Set(this.#waiting.values())].sort((one, other) => bytesOf(one) - bytesOf(other));
  }

  /** Who is served next, and has been; null: nobody can be. */
  #serveOne(): Content | null {
    const order = this.#poorestFirst();
    for (const account of order) {
      const heads = headsOf(account);
      const served = heads.find((head) => this.#parts.tryGrow(account, head));
      if (served !== undefined) return served;
      // Those who have more would take what this one waits for.
      if (heads.some((head) => this.#parts.isHeldUp(account, head))) break;
    }
    const [first] = order;
    if (first === undefined) return null;
    const oldest = headsOf(first).reduce((one, other) => (one.number < other.number ? one : other));
    return this.#parts.tryFinish(first, oldest) ? oldest : null;
  }

  #serve(joining: Content | null): void {
    if (this.#waiting.size === 0) return;
    this.#parts.relabel();
    const served: Content[] = [];
    let next = this.#serveOne();
    while (next !== null) {
      this.leave(next);
      served.push(next);
      next = this.#waiting.size === 0 ? null : this.#serveOne();
    }
    for (const content of served) if (content !== joining) content.takeUp();
  }

  #refuse(content: Content, reason: Failure): void {
    this.leave(content);
    content.owner.onNoRoom(reason);
  }

  /** Of the account; null: of the one that has most. False: none waits. */
  refuseYoungest(given: AccountMemory | null): boolean {
    const account = given ?? this.#poorestFirst().at(-1);
    if (account === undefined) return false;
    const last = [account.waitingSmall.at(-1), account.waitingLarge.at(-1)].filter((each) => each !== undefined);
    if (last.length === 0) return false;
    const youngest = last.reduce((one, other) => (one.number > other.number ? one : other));
    this.#refuse(youngest, this.#parts.tooMany);
    return true;
  }

  #tick(): void {
    const nowMs = this.#parts.now();
    // Time alone changes what older contents are expected to need.
    this.#serve(null);
    for (const [content, account] of [...this.#waiting]) {
      if (!this.#waiting.has(content)) continue;
      count(content, nowMs);
      content.isHeldUp = this.#waitsForOthers(account, content);
      if ((content.isHeldUp ? content.waitLeftMs : content.ownWaitLeftMs) <= 0)
        this.#refuse(content, this.#parts.tooMany);
    }
    for (const account of this.#poorestFirst()) {
      for (const head of headsOf(account))
        if (nowMs - head.waitingSinceMs >= PATIENCE_MS) this.#makeRoom(account, head);
    }
    this.#serve(null);
  }

  /** Ends contents of accounts that have more than its own would have then, until it is served. */
  #makeRoom(account: AccountMemory, content: Content): void {
    while (this.#waiting.has(content) && this.#parts.isHeldUp(account, content)) {
      const costliest = this.#costliestBeyond(bytesOf(account) + this.#parts.stepOf(content), account);
      if (costliest === null) return;
      this.ended += 1;
      this.#refuse(costliest, new Unavailable('memoryNeeded'));
      if (!costliest.isReleased) throw new Error('A content was not released');
    }
  }

  /** Of the account that has most, if that is more than the given bytes: the content on its way that has kept most for longest. */
  #costliestBeyond(bytes: number, except: AccountMemory): Content | null {
    const nowMs = this.#parts.now();
    let most = bytes;
    let costliest: Content | null = null;
    for (const account of this.#parts.accounts.values()) {
      if (account === except || bytesOf(account) <= most) continue;
      let highest = 0;
      for (let content = account.receiving.first; content !== null; content = content.behind) {
        const cost = (content.block.length + content.waitingBytes) * (nowMs - content.beganAtMs);
        if (cost <= highest) continue;
        highest = cost;
        most = bytesOf(account);
        costliest = content;
      }
    }
    return costliest;
  }
}

/** Its wait until now, as a wait for others or for its own account. */
function count(content: Content, nowMs: number): void {
  const waitedMs = nowMs - content.countedMs;
  content.countedMs = nowMs;
  if (content.isHeldUp) content.waitLeftMs -= waitedMs;
  else content.ownWaitLeftMs -= waitedMs;
}

function laneOf({ waitingSmall, waitingLarge }: AccountMemory, { isSmall }: Content): Content[] {
  return isSmall ? waitingSmall : waitingLarge;
}

const bytesOf = ({ sharedBytes, finishingBytes }: AccountMemory): number => sharedBytes + finishingBytes;

/** Small ones first: they find room that is kept for them. */
function headsOf({ waitingSmall, waitingLarge }: AccountMemory): Content[] {
  return [waitingSmall[0], waitingLarge[0]].filter((content) => content !== undefined);
}
