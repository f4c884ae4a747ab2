// The memory of contents: lent as bytes arrive, within one budget and fairly between accounts, so that any number of clients stays inside a stated bound.
import { performance } from 'node:perf_hooks';
import { Unavailable } from '../../errors.js';
import { CONTENT_LIMIT_BYTES } from '../../limits.js';
import { AccountMemory, type Content } from '../content.js';
import { blockSize, copyInto, createArena } from './arena.js';
import { createWaitingLine } from './waiters.js';

export type UploadMemory = ReturnType<typeof createUploadMemory>;

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
export function createUploadMemory(options: MemoryOptions) {
  const {
    budgetBytes,
    largestBytes = CONTENT_LIMIT_BYTES,
    reserveShare,
    waitMs,
    ownWaitMs,
    use,
    now = performance.now.bind(performance),
  } = options;
  const finishingRoom = Math.min(largestBytes, budgetBytes);
  const sharedRoom = budgetBytes - finishingRoom;
  const reserveBytes = budgetBytes * reserveShare;
  const aloneBytes = Math.max(0, sharedRoom - reserveBytes);
  /** The most of the shared part that an account may fill with what arrived and waits; half of the reserve is then left. */
  const waitingLimit = aloneBytes + reserveBytes / 2;
  /** The most of it that may be lent to an account's large contents. */
  const lentLimit = waitingLimit - Math.min(BURST_BYTES, BURST_SHARE * waitingLimit);
  const smallMultiple = aloneBytes / reserveBytes;
  const largeMultiple = smallMultiple * LARGE_SHARE;

  const accounts = new Map<string, AccountMemory>();
  /** Those that have something of the finishing room. */
  const finishers = new Set<Content>();
  let busyAccounts = 0;
  let sharedBytes = 0;
  let finishingBytes = 0;
  let waitingBytes = 0;
  let begun = 0;
  const arena = createArena(budgetBytes);
  const tooMany = new Unavailable(use === 'uploads' ? 'uploadsBusy' : 'downloadsBusy');
  const waiters = createWaitingLine({ now, tooMany, accounts, tryGrow, tryFinish, isHeldUp, stepOf, relabel });

  /** There is room for so many bytes more, and an account that has `ownBytes` may have them, while all have `lentBytes`. */
  function allows(isSmall: boolean, ownBytes: number, lentBytes: number, extraBytes: number): boolean {
    const freeBytes = sharedRoom - lentBytes - extraBytes;
    return freeBytes >= 0 && ownBytes + extraBytes <= (isSmall ? smallMultiple : largeMultiple) * freeBytes;
  }

  /**
   * What older contents of the account are expected to need: a younger one that took it would keep them from their end. Small ones
   * have room beside them.
   */
  function expectedBefore(account: AccountMemory, content: Content): number {
    if (content.isSmall) return 0;
    const nowMs = now();
    let bytes = 0;
    for (let older = account.receiving.first; older !== null && older !== content; older = older.behind) {
      const rest = older.limitSize - older.block.length;
      const isQuick = older.isDeclared && nowMs - older.beganAtMs < QUICK_MS;
      bytes += isQuick ? rest : Math.min(rest, older.block.length);
    }
    return bytes;
  }

  /** The least that it must have more. What waits counts already. */
  function stepOf(content: Content): number {
    return blockSize(content.neededBytes, content.limitSize) - content.block.length - content.waitingBytes;
  }

  /** It is others who have what it waits for: with nothing of theirs in the way it could have it. */
  function isHeldUp(account: AccountMemory, content: Content): boolean {
    const stepBytes = stepOf(content);
    if (!leavesRoom(account, content, stepBytes + content.waitingBytes)) return false;
    const extraBytes = stepBytes + expectedBefore(account, content);
    return allows(content.isSmall, account.sharedBytes, account.sharedBytes, extraBytes);
  }

  function tryGrow(account: AccountMemory, content: Content): boolean {
    const { isSmall, limitSize, neededBytes } = content;
    const ample = limitSize <= AT_ONCE_BYTES ? limitSize : blockSize(GENEROUS * neededBytes, limitSize);
    const generously = 2 * (ample - content.block.length - content.waitingBytes) + account.claimedBytes;
    if (allows(isSmall, account.sharedBytes, sharedBytes, generously)) {
      if (isSmall || leavesRoom(account, content, ample - content.block.length)) return lend(account, content, ample);
    }
    if (!leavesRoom(account, content, stepOf(content) + content.waitingBytes)) return false;
    const extraBytes = stepOf(content) + expectedBefore(account, content);
    if (!allows(isSmall, account.sharedBytes, sharedBytes, extraBytes)) return false;
    return lend(account, content, blockSize(neededBytes, limitSize));
  }

  /** What other sockets of the account may bring at once finds room to wait in, so that none of them is refused. */
  function leavesRoom(account: AccountMemory, content: Content, lentBytes: number): boolean {
    return content.isSmall || account.sharedBytes - account.waitingBytes + lentBytes <= lentLimit;
  }

  /** All that it may still need, of the finishing room. */
  function tryFinish(account: AccountMemory, content: Content): boolean {
    const rest = content.limitSize - content.block.length;
    if (finishingBytes + rest > finishingRoom) return false;
    content.finishingBytes += rest;
    account.finishingBytes += rest;
    finishingBytes += rest;
    share(account, -rest);
    finishers.add(content);
    return lend(account, content, content.limitSize);
  }

  /** The finishing room is free again as soon as the shared part has room for what is lent of it. */
  function relabel(): void {
    for (const content of finishers) {
      const { account, isSmall } = content;
      if (account === null || !leavesRoom(account, content, content.finishingBytes)) continue;
      if (allows(isSmall, account.sharedBytes, sharedBytes, content.finishingBytes)) endFinishing(account, content);
    }
  }

  function endFinishing(account: AccountMemory, content: Content): void {
    if (!finishers.delete(content)) return;
    const bytes = content.finishingBytes;
    content.finishingBytes = 0;
    account.finishingBytes -= bytes;
    finishingBytes -= bytes;
    share(account, bytes);
  }

  function share(account: AccountMemory, bytes: number): void {
    account.sharedBytes += bytes;
    sharedBytes += bytes;
  }

  function lend(account: AccountMemory, content: Content, size: number): true {
    const old = content.block;
    if (content.waitingBytes > 0) keepWaiting(account, content, 0);
    // Its own old block goes back while the new one is filled: for that moment there is one content more than the budget has.
    share(account, size - old.length);
    account.claimedBytes -= size - old.length;
    content.block = arena.take(size, sharedBytes + finishingBytes);
    if (content.sizeBytes > 0) copyInto(content.block, 0, old.subarray(0, content.sizeBytes));
    if (old.length > 0) arena.give(old, sharedBytes + finishingBytes);
    return true;
  }

  /** What has arrived is here, and counts, whether there is room or not. */
  function keepWaiting(account: AccountMemory, content: Content, bytes: number): void {
    const more = bytes - content.waitingBytes;
    if (more === 0) return;
    share(account, more);
    account.waitingBytes += more;
    waitingBytes += more;
    content.waitingBytes = bytes;
  }

  /** Refuses the youngest of those that wait when what has arrived for them is too much. */
  function shed(account: AccountMemory): void {
    while (account.sharedBytes > waitingLimit && waiters.refuseYoungest(account));
    while (sharedBytes > sharedRoom && waiters.refuseYoungest(null));
  }

  function begin(content: Content): AccountMemory {
    const account = accounts.get(content.accountId) ?? newAccount(content.accountId);
    if (account.contents === 0) busyAccounts += 1;
    account.contents += 1;
    account.receiving.add(content);
    account.claimedBytes += content.limitSize;
    begun += 1;
    content.account = account;
    content.number = begun;
    content.beganAtMs = now();
    content.waitLeftMs = waitMs;
    content.ownWaitLeftMs = ownWaitMs;
    return account;
  }

  function newAccount(id: string): AccountMemory {
    const account = new AccountMemory(id);
    accounts.set(id, account);
    return account;
  }

  function forgetIdle(account: AccountMemory): void {
    const isIdle = account.contents === 0 && account.sharedBytes === 0;
    if (isIdle && accounts.size > IDLE_ACCOUNTS) accounts.delete(account.id);
  }

  function waitOutside(account: AccountMemory, bytes: number): void {
    share(account, bytes);
    account.waitingBytes += bytes;
    waitingBytes += bytes;
  }

  function endReceiving(account: AccountMemory, content: Content): void {
    account.receiving.remove(content);
    account.claimedBytes -= content.limitSize - content.block.length;
  }

  return {
    largestBytes,
    grow(content: Content, bytes: number): boolean {
      if (content.isReleased) return false;
      const account = content.account ?? begin(content);
      content.neededBytes = bytes;
      if (waiters.size === 0 && tryGrow(account, content)) return true;
      keepWaiting(account, content, bytes - content.sizeBytes);
      const isServed = waiters.join(account, content);
      if (!isServed) shed(account);
      return isServed;
    },
    seal(content: Content): void {
      const { account } = content;
      if (account === null || content.isSealed) return;
      content.isSealed = true;
      endReceiving(account, content);
      if (waiters.size > 0) waiters.serve();
    },
    release(content: Content): void {
      const { account, block } = content;
      if (account === null) return;
      if (waiters.size > 0) waiters.leave(content);
      if (content.waitingBytes > 0) keepWaiting(account, content, 0);
      if (content.finishingBytes > 0) endFinishing(account, content);
      share(account, -block.length);
      if (!content.isSealed) endReceiving(account, content);
      if (block.length > 0) arena.give(block, sharedBytes + finishingBytes);
      content.account = null;
      account.contents -= 1;
      if (account.contents === 0) {
        busyAccounts -= 1;
        if (accounts.size > IDLE_ACCOUNTS) forgetIdle(account);
      }
      if (waiters.size > 0) waiters.serve();
    },
    /** Counts bytes as the account's that have arrived, and wait outside of a content. False: there is no room for them. */
    setAside(id: string, bytes: number): boolean {
      const account = accounts.get(id) ?? newAccount(id);
      const hasRoom = account.sharedBytes + bytes <= waitingLimit && sharedBytes + bytes <= sharedRoom;
      if (hasRoom) waitOutside(account, bytes);
      else forgetIdle(account);
      return hasRoom;
    },
    /** They are gone, or go into a content next: nobody else is served before that. */
    takeUp(id: string, bytes: number): void {
      const account = accounts.get(id);
      if (account === undefined) throw new Error('An account that has bytes aside was forgotten');
      waitOutside(account, -bytes);
      forgetIdle(account);
    },
    /** Bytes lent out, and those that have arrived and wait for a buffer. */
    get lentBytes(): number {
      return sharedBytes + finishingBytes;
    },
    /** Those of them that wait. */
    get waitingBytes(): number {
      return waitingBytes;
    },
    get waiting(): number {
      return waiters.size;
    },
    get accounts(): number {
      return busyAccounts;
    },
    get largestAccountBytes(): number {
      let most = 0;
      for (const account of accounts.values()) most = Math.max(most, account.sharedBytes + account.finishingBytes);
      return most;
    },
    /** Contents that were ended because another account waited for what they held. */
    get ended(): number {
      return waiters.ended;
    },
  };
}
