// What came of a scan when its thread has let go of it.
import { PLAINLY_CLEAN, readAnswer } from '../verdict.js';
import type { ThreadScan } from './thread-scan.js';

/** A thread takes the native engine that serves when it begins: that isn't always the one that was asked. */
export function isOfAnother({ engine, said, lookedEpoch }: ThreadScan): boolean {
  return engine !== null && said?.kind !== 'failed' && lookedEpoch !== engine.work.nativeEpoch;
}

export function deliver(scan: ThreadScan): void {
  const { engine, said } = scan;
  if (scan.isOverdue) scan.onLetGo();
  else if (engine === null) unseen(scan, 'no engine is loaded');
  else if (said?.kind === 'failed') unseen(scan, said.message);
  else if (scan.lookedEpoch !== engine.work.nativeEpoch) unseen(scan, 'another engine came to serve');
  else scan.onAnswer(readAnswer(said?.answer ?? PLAINLY_CLEAN, scan.policy), engine, scan.lookedMs);
}

function unseen(scan: ThreadScan, reason: string): void {
  scan.detectedType = null;
  scan.secondLook = null;
  scan.onAnswer({ kind: 'incomplete', reason: `engine error: ${reason}` }, null, 0);
}
