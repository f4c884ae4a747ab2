// A queue of scans that have names, for its tests.
import { FairQueue } from '../../../src/engine/threads/fair-queue.js';
import { ThreadScan } from '../../../src/engine/threads/thread-scan.js';

const KIB = 1024;

const ignore = (): void => undefined;

export class Scan extends ThreadScan {
  readonly name: string;

  constructor(account: string, name: string, sizeBytes: number) {
    super();
    this.account = account;
    this.name = name;
    this.sizeBytes = sizeBytes;
  }

  override onTurn = ignore;
  override onAnswer = ignore;
  override onRefused = ignore;
  override onOverdue = ignore;
  override onLetGo = ignore;
  override onBroken = ignore;
}

export function scanOf(account: string, name = '', sizeBytes = KIB): Scan {
  return new Scan(account, name, sizeBytes);
}

/** A queue that is asked for scans by their names, and told by the account which one has ended: that which began first. */
export function openQueue(limit: number) {
  const queue = new FairQueue(limit);
  const running: ThreadScan[] = [];
  const nameOf = (scan: ThreadScan | null): string | undefined => {
    if (scan === null) return undefined;
    running.push(scan);
    return scan instanceof Scan ? scan.name : '';
  };
  return {
    queue,
    push: (account: string, name: string, nowMs: number, sizeBytes?: number) =>
      queue.push(scanOf(account, name, sizeBytes), nowMs),
    shift: (nowMs: number) => nameOf(queue.shift(nowMs)),
    begin(account: string, nowMs: number): void {
      const scan = scanOf(account);
      queue.begin(scan, nowMs);
      running.push(scan);
    },
    end(account: string, nowMs: number): void {
      const [scan] = running.splice(
        running.findIndex((one) => one.account === account),
        1,
      );
      if (scan !== undefined) queue.end(scan, nowMs);
    },
    /** One after the other, each on a thread of its own that is free again at once. */
    drain(nowMs = 0): string[] {
      const order: string[] = [];
      for (let scan = queue.shift(nowMs); scan !== null; scan = queue.shift(nowMs)) {
        if (scan instanceof Scan) order.push(scan.name);
        queue.end(scan, nowMs);
      }
      return order;
    },
  };
}
