// One content at a thread: handed over, again when another engine came to serve meanwhile, and the answer read.
import { performance } from 'node:perf_hooks';
import type { Engine } from '../engine.js';
import { servingNow } from '../serving.js';
import { type EncryptedPolicy, readAnswer, type Verdict } from '../verdict.js';
import type { EngineWork, ScanTask } from './task.js';
import type { Thread } from './threads.js';

export interface Looked {
  readonly verdict: Verdict;
  /** The engine that scanned it; null: no engine did, and the verdict is incomplete. */
  readonly engine: Engine | null;
  /** Time inside the engine. */
  readonly durationMs: number;
}

export interface Sight extends Pick<ScanTask, 'content' | 'sizeBytes' | 'sha256'> {
  readonly policy: EncryptedPolicy;
  /** By the clock of `performance`: later no second look begins. */
  readonly deadlineMs: number;
}

export interface LookEnd {
  /** Before a second look. */
  onAgain(): void;
  /** Null: the thread has died. */
  onEnd(looked: Looked | null): void;
}

/** The thread then says that there is nothing to scan with. */
const NO_WORK: EngineWork = { nativeEpoch: null, rules: null };

/** A thread takes the native engine that serves when it begins. Where that is not the engine that was asked, the one that serves by then is asked. */
export function lookAt(sight: Sight, thread: Pick<Thread, 'post'>, end: LookEnd): void {
  const { content, sizeBytes, sha256, policy, deadlineMs } = sight;
  const engine = servingNow();
  const { nativeEpoch, rules } = engine?.work ?? NO_WORK;
  thread.post({ content, sizeBytes, clamav: nativeEpoch !== null, rules, sha256 }, (result) => {
    if (result === null) return end.onEnd(null);
    if (engine === null) return end.onEnd(unseen('no engine is loaded'));
    if (result.kind === 'failed') return end.onEnd(unseen(result.message));
    const { answer, durationMs } = result;
    if (result.nativeEpoch === nativeEpoch)
      return end.onEnd({ verdict: readAnswer(answer, policy), engine, durationMs });
    if (performance.now() > deadlineMs) return end.onEnd(unseen('another engine came to serve'));
    end.onAgain();
    lookAt(sight, thread, end);
  });
}

function unseen(reason: string): Looked {
  const verdict: Verdict = { kind: 'incomplete', reason: `engine error: ${reason}` };
  return { verdict, engine: null, durationMs: 0 };
}
