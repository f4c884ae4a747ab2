// What came of a scan when its thread has let go of it.
import { contentType } from '../clamav/addon.js';
import type { Engine } from '../engine.js';
import { readAnswer, type Verdict } from '../verdict.js';
import type { ThreadScan } from './thread-scan.js';
import type { ThreadAnswer } from './thread-slot.js';

/** What came of a scan. */
export interface Ended {
  readonly scan: ThreadScan;
  readonly verdict: Verdict;
  readonly engine: Engine | null;
  readonly durationMs: number;
}

/** A thread takes the native engine that serves when it begins. Null: that isn't the one that was asked, and there is time to ask again. */
export function endOf(scan: ThreadScan, answer: ThreadAnswer, nowMs: number): Ended | null {
  const { engine, policy, deadlineMs } = scan;
  if (engine === null) return unseen(scan, 'no engine is loaded');
  if (answer.kind === 'failed') return unseen(scan, answer.message);
  if (answer.nativeEpoch === engine.work.nativeEpoch) {
    scan.detectedType = contentType(answer.type);
    scan.secondLook = answer.secondLook;
    return { scan, verdict: readAnswer(answer.answer, policy), engine, durationMs: answer.durationMs };
  }
  return nowMs > deadlineMs ? unseen(scan, 'another engine came to serve') : null;
}

function unseen(scan: ThreadScan, reason: string): Ended {
  return { scan, verdict: { kind: 'incomplete', reason: `engine error: ${reason}` }, engine: null, durationMs: 0 };
}

export function deliver({ scan, verdict, engine, durationMs }: Ended): void {
  if (scan.isOverdue) scan.onLetGo();
  else scan.onAnswer(verdict, engine, durationMs);
}
