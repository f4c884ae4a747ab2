// One content at a thread: handed over, again when another engine came to serve meanwhile, and the answer read.
import { performance } from 'node:perf_hooks';
import { type Serving, servingNow, servingWith } from './serving.js';
import type { ScanTaskResult } from './task.js';
import type { Thread } from './threads.js';
import { type EncryptedPolicy, readAnswer, type Verdict } from './verdict.js';

export interface Looked {
  readonly verdict: Verdict;
  /** The epoch of the engine that looked; null when none did. */
  readonly epoch: number | null;
  /** Time inside the engine. */
  readonly durationMs: number;
  /** The buffer that was handed in, for the next content. */
  readonly content: ArrayBuffer;
}

export interface Sight {
  readonly content: ArrayBuffer;
  readonly sizeBytes: number;
  readonly policy: EncryptedPolicy;
  /** By the clock of `performance`: later no second look begins. */
  readonly deadlineMs: number;
}

/** Once more when another engine came to serve on the way, with other rules: nothing was told by both of one epoch. */
export async function lookAt({ content, sizeBytes, policy, deadlineMs }: Sight, thread: Thread): Promise<Looked> {
  for (let buffer = content; ; ) {
    const serving = servingNow();
    const task = { content: buffer, sizeBytes, clamav: serving?.nativeEpoch !== null, rules: serving?.rules ?? null };
    const result = await thread.run(task);
    const looked = lookedWith(result, serving);
    if (performance.now() > deadlineMs || looked === null || looked.rules === task.rules) {
      return read(result, policy, looked?.epoch ?? null);
    }
    buffer = result.content;
  }
}

/** Null when nothing has looked. */
function lookedWith(result: ScanTaskResult, asked: Serving | null): Serving | null {
  if (result.kind === 'failed') return null;
  return result.nativeEpoch === null ? asked : servingWith(result.nativeEpoch);
}

function read(result: ScanTaskResult, policy: EncryptedPolicy, epoch: number | null): Looked {
  if (result.kind === 'failed') {
    const verdict: Verdict = { kind: 'incomplete', reason: `engine error: ${result.message}` };
    return { verdict, epoch: null, durationMs: 0, content: result.content };
  }
  const { answer, durationMs, content } = result;
  return { verdict: readAnswer(answer, policy), epoch, durationMs, content };
}
