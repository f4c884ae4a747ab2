// The memory of contents: lent as bytes arrive, within one budget and fairly between accounts, so that any number of clients stays inside a stated bound.
import { performance } from 'node:perf_hooks';
import { Unavailable } from '../../errors.js';
import { CONTENT_LIMIT_BYTES } from '../../limits.js';
import { AccountMemory, type Content } from '../content.js';
import { blockSize, copyInto, createArena } from './arena.js';
import { WaitingLine } from './waiters.js';

interface MemoryOptions {
  readonly budgetBytes: number;
  /** Of any protocol; default: CONTENT_LIMIT_BYTES. */
  readonly largestBytes?: number;
  /** What one account leaves to others, as a share of the budget. */
  readonly reserveShare: number;
  /** How long a content may wait for what others have, all its waits together. */
  readonly waitMs: number;
  /** The same for what its own account has: nobody but the account is kept waiting by it. */
  readonly ownWaitMs: number;
  /** What the budget is for, in the words of the refusal. */
  readonly use: 'uploads' | 'downloads';
  /** Milliseconds of any clock; default: that of the process. */
  readonly now?: () => number;
}

/** Expected sizes up to this are lent at once: as much may lie in the socket. */
const AT_ONCE_BYTES = 64 * 1024;
/** While there is plenty, a block has room for so many times what has arrived: each growth is a copy. */
const GENEROUS = 4;
/** What reads of 64 sockets bring at most, after which their contents may have to wait (uWebSockets.js). */
const BURST_BYTES = 64 * 512 * 1024;
/** Of a small budget not more than this is kept for such a burst. */
const BURST_SHARE = 1 / 5;
/** For so long a content is expected to need all that it declared; afterwards, and where nothing was declared, as much again as it has by then. */
const QUICK_MS = 2_000;
/** Of what an account may have: large contents leave the rest to small ones, which find room beside them. */
const LARGE_SHARE = 3 / 4;
/** Accounts that have nothing are kept up to this number: one that sends small contents is known already when the next one comes. */
const IDLE_ACCOUNTS = 1_000;

/**
 * An account may have a fixed multiple of what stays free (dynamic thresholds, as switches share their buffers: Choudhury and Hahne
 * 1998). The multiple is such that an account alone leaves the reserve. With more accounts each one's limit falls by itself, and there
 * is always something left for the next.
 *
 * The finishing room is for one content of the largest size, for the first in line. It is lent for all that a content may still need, so
 * this one never waits again. Even when many half-received contents want to grow, one of them can, and ends.
 */
export class UploadMemory {
  readonly largestBytes: number;
  readonly #waitMs: number;
  readonly #ownWaitMs: number;
  readonly #now: () => number;
  readonly #finishingRoom: number;
  readonly #sharedRoom: number;
  /** The most of the shared part that an account may fill with what arrived and waits; half of the reserve is then left. */
  readonly #waitingLimit: number;
  /** The most of it that may be lent to an account's large contents. */
  readonly #lentLimit: number;
  readonly #smallMultiple: number;
  readonly #largeMultiple: number;
  readonly #accounts = new Map<string, AccountMemory>();
  /** Those that have something of the finishing room. */
  readonly #finishers = new Set<Content>();
  readonly #arena: ReturnType<typeof createArena>;
  readonly #waiters: WaitingLine;
  #busyAccounts = 0;
  #sharedBytes = 0;
  #finishingBytes = 0;
  #waitingBytes = 0;
  #begun = 0;

  constructor(options: MemoryOptions) {
    const { budgetBytes, largestBytes = CONTENT_LIMIT_BYTES, reserveShare, waitMs, ownWaitMs, use } = options;
    this.largestBytes = largestBytes;
    this.#waitMs = waitMs;
    this.#ownWaitMs = ownWaitMs;
    this.#now = options.now ?? performance.now.bind(performance);
    this.#finishingRoom = Math.min(largestBytes, budgetBytes);
    this.#sharedRoom = budgetBytes - this.#finishingRoom;
    const reserveBytes = budgetBytes * reserveShare;
    const aloneBytes = Math.max(0, this.#sharedRoom - reserveBytes);
    this.#waitingLimit = aloneBytes + reserveBytes / 2;
    this.#lentLimit = this.#waitingLimit - Math.min(BURST_BYTES, BURST_SHARE * this.#waitingLimit);
    this.#smallMultiple = aloneBytes / reserveBytes;
    this.#largeMultiple = this.#smallMultiple * LARGE_SHARE;
    this.#arena = createArena(budgetBytes);
    this.#waiters = new WaitingLine({
      now: this.#now,
      tooMany: new Unavailable(use === 'uploads' ? 'uploadsBusy' : 'downloadsBusy'),
      accounts: this.#accounts,
      tryGrow: (account, content) => this.#tryGrow(account, content),
      tryFinish: (account, content) => this.#tryFinish(account, content),
      isHeldUp: (account, content) => this.#isHeldUp(account, content),
      stepOf: (content) => this.#stepOf(content),
      relabel: () => this.#relabel(),
    });
  }

  grow(content: Content, bytes: number): boolean {
    if (content.isReleased) return false;
    const account = content.account ?? this.#begin(content);
    content.neededBytes = bytes;
    if (this.#waiters.size === 0 && this.#tryGrow(account, content)) return true;
    this.#keepWaiting(account, content, bytes - content.sizeBytes);
    const isServed = this.#waiters.join(account, content);
    if (!isServed) this.#shed(account);
    return isServed;
  }

  seal(content: Content): void {
    const { account } = content;
    if (account === null || content.isSealed) return;
    content.isSealed = true;
    this.#endReceiving(account, content);
    if (this.#waiters.size > 0) this.#waiters.serve();
  }

  release(content: Content): void {
    const { account, block } = content;
    if (account === null) return;
    if (this.#waiters.size > 0) this.#waiters.leave(content);
    if (content.waitingBytes > 0) this.#keepWaiting(account, content, 0);
    if (content.finishingBytes > 0) this.#endFinishing(account, content);
    this.#share(account, -block.length);
    if (!content.isSealed) this.#endReceiving(account, content);
    if (block.length > 0) this.#arena.give(block, this.#sharedBytes + this.#finishingBytes);
    content.account = null;
    account.contents -= 1;
    if (account.contents === 0) {
      this.#busyAccounts -= 1;
      if (this.#accounts.size > IDLE_ACCOUNTS) this.#forgetIdle(account);
    }
    if (this.#waiters.size > 0) this.#waiters.serve();
  }

  /** Counts bytes as the account's that have arrived, and wait outside of a content. False: there is no room for them. */
  setAside(id: string, bytes: number): boolean {
    const account = this.#accounts.get(id) ?? this.#newAccount(id);
    const hasRoom = account.sharedBytes + bytes <= this.#waitingLimit && this.#sharedBytes + bytes <= this.#sharedRoom;
    if (hasRoom) this.#waitOutside(account, bytes);
    else this.#forgetIdle(account);
    return hasRoom;
  }

  /** They are gone, or go into a content next: nobody else is served before that. */
  takeUp(id: string, bytes: number): void {
    const account = this.#accounts.get(id);
    if (account === undefined) throw new Error('An account that has bytes aside was forgotten');
    this.#waitOutside(account, -bytes);
    this.#forgetIdle(account);
  }

  /** Bytes lent out, and those that have arrived and wait for a buffer. */
  get lentBytes(): number {
    return this.#sharedBytes + this.#finishingBytes;
  }

  /** Those of them that wait. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  get accounts(): number {
    return this.#busyAccounts;
  }

  get largestAccountBytes(): number {
    let most = 0;
    for (const account of this.#accounts.values()) most = Math.max(most, account.sharedBytes + account.finishingBytes);
    return most;
  }

  /** Contents that were ended because another account waited for what they held. */
  get ended(): number {
    return this.#waiters.ended;
  }

  /** There is room for so many bytes more, and an account that has `ownBytes` may have them, while all have `lentBytes`. */
  #allows(isSmall: boolean, ownBytes: number, lentBytes: number, extraBytes: number): boolean {
    const freeBytes = this.#sharedRoom - lentBytes - extraBytes;
    return freeBytes >= 0 && ownBytes + extraBytes <= (isSmall ? this.#smallMultiple : this.#largeMultiple) * freeBytes;
  }

  /**
   * What older contents of the account are expected to need: a younger one that took it would keep them from their end. Small ones
   * have room beside them.
   */
  #expectedBefore(account: AccountMemory, content: Content): number {
    if (content.isSmall) return 0;
    const nowMs = this.#now();
    let bytes = 0;
    for (let older = account.receiving.first; older !== null && older !== content; older = older.behind) {
      const rest = older.limitSize - older.block.length;
      const isQuick = older.isDeclared && nowMs - older.beganAtMs < QUICK_MS;
      bytes += isQuick ? rest : Math.min(rest, older.block.length);
    }
    return bytes;
  }

  /** The least that it must have more. What waits counts already. */
  #stepOf(content: Content): number {
    return blockSize(content.neededBytes, content.limitSize) - content.block.length - content.waitingBytes;
  }

  /** It is others who have what it waits for: with nothing of theirs in the way it could have it. */
  #isHeldUp(account: AccountMemory, content: Content): boolean {
    const stepBytes = this.#stepOf(content);
    if (!this.#leavesRoom(account, content, stepBytes + content.waitingBytes)) return false;
    const extraBytes = stepBytes + this.#expectedBefore(account, content);
    return this.#allows(content.isSmall, account.sharedBytes, account.sharedBytes, extraBytes);
  }

  #tryGrow(account: AccountMemory, content: Content): boolean {
    const { isSmall, limitSize, neededBytes } = content;
    const ample = limitSize <= AT_ONCE_BYTES ? limitSize : blockSize(GENEROUS * neededBytes, limitSize);
    const generously = 2 * (ample - content.block.length - content.waitingBytes) + account.claimedBytes;
    if (this.#allows(isSmall, account.sharedBytes, this.#sharedBytes, generously)) {
      if (isSmall || this.#leavesRoom(account, content, ample - content.block.length))
        return this.#lend(account, content, ample);
    }
    if (!this.#leavesRoom(account, content, this.#stepOf(content) + content.waitingBytes)) return false;
    const extraBytes = this.#stepOf(content) + this.#expectedBefore(account, content);
    if (!this.#allows(isSmall, account.sharedBytes, this.#sharedBytes, extraBytes)) return false;
    return this.#lend(account, content, blockSize(neededBytes, limitSize));
  }

  /** What other sockets of the account may bring at once finds room to wait in, so that none of them is refused. */
  #leavesRoom(account: AccountMemory, content: Content, lentBytes: number): boolean {
    return content.isSmall || account.sharedBytes - account.waitingBytes + lentBytes <= this.#lentLimit;
  }

  /** All that it may still need, of the finishing room. */
  #tryFinish(account: AccountMemory, content: Content): boolean {
    const rest = content.limitSize - content.block.length;
    if (this.#finishingBytes + rest > this.#finishingRoom) return false;
    content.finishingBytes += rest;
    account.finishingBytes += rest;
    this.#finishingBytes += rest;
    this.#share(account, -rest);
    this.#finishers.add(content);
    return this.#lend(account, content, content.limitSize);
  }

  /** The finishing room is free again as soon as the shared part has room for what is lent of it. */
  #relabel(): void {
    for (const content of this.#finishers) {
      const { account, isSmall } = content;
      if (account === null || !this.#leavesRoom(account, content, content.finishingBytes)) continue;
      if (this.#allows(isSmall, account.sharedBytes, this.#sharedBytes, content.finishingBytes))
        this.#endFinishing(account, content);
    }
  }

  #endFinishing(account: AccountMemory, content: Content): void {
    if (!this.#finishers.delete(content)) return;
    const bytes = content.finishingBytes;
    content.finishingBytes = 0;
    account.finishingBytes -= bytes;
    this.#finishingBytes -= bytes;
    this.#share(account, bytes);
  }

  #share(account: AccountMemory, bytes: number): void {
    account.sharedBytes += bytes;
    this.#sharedBytes += bytes;
  }

  #lend(account: AccountMemory, content: Content, size: number): true {
    const old = content.block;
    if (content.waitingBytes > 0) this.#keepWaiting(account, content, 0);
    // Its own old block goes back while the new one is filled: for that moment there is one content more than the budget has.
    this.#share(account, size - old.length);
    account.claimedBytes -= size - old.length;
    content.block = this.#arena.take(size, this.#sharedBytes + this.#finishingBytes);
    if (content.sizeBytes > 0) copyInto(content.block, 0, old.subarray(0, content.sizeBytes));
    if (old.length > 0) this.#arena.give(old, this.#sharedBytes + this.#finishingBytes);
    return true;
  }

  /** What has arrived is here, and counts, whether there is room or not. */
  #keepWaiting(account: AccountMemory, content: Content, bytes: number): void {
    const more = bytes - content.waitingBytes;
    if (more === 0) return;
    this.#share(account, more);
    account.waitingBytes += more;
    this.#waitingBytes += more;
    content.waitingBytes = bytes;
  }

  /** Refuses the youngest of those that wait when what has arrived for them is too much. */
  #shed(account: AccountMemory): void {
    while (account.sharedBytes > this.#waitingLimit && this.#waiters.refuseYoungest(account));
    while (this.#sharedBytes > this.#sharedRoom && this.#waiters.refuseYoungest(null));
  }

  #begin(content: Content): AccountMemory {
    const account = this.#accounts.get(content.accountId) ?? this.#newAccount(content.accountId);
    if (account.contents === 0) this.#busyAccounts += 1;
    account.contents += 1;
    account.receiving.add(content);
    account.claimedBytes += content.limitSize;
    this.#begun += 1;
    content.account = account;
    content.number = this.#begun;
    content.beganAtMs = this.#now();
    content.waitLeftMs = this.#waitMs;
    content.ownWaitLeftMs = this.#ownWaitMs;
    return account;
  }

  #newAccount(id: string): AccountMemory {
    const account = new AccountMemory(id);
    this.#accounts.set(id, account);
    return account;
  }

  #forgetIdle(account: AccountMemory): void {
    const isIdle = account.contents === 0 && account.sharedBytes === 0;
    if (isIdle && this.#accounts.size > IDLE_ACCOUNTS) this.#accounts.delete(account.id);
  }

  #waitOutside(account: AccountMemory, bytes: number): void {
    this.#share(account, bytes);
    account.waitingBytes += bytes;
    this.#waitingBytes += bytes;
  }

  #endReceiving(account: AccountMemory, content: Content): void {
    account.receiving.remove(content);
    account.claimedBytes -= content.limitSize - content.block.length;
  }
}
