// The shapes on which the two sides of a scan thread agree: all of it plain data, since classes don't survive the crossing.
import type { EngineAnswer } from './addon.js';

/** `auto`: scan threads are confined as far as the kernel can; `required`: they don't scan where it can't. */
export type SandboxMode = 'auto' | 'off' | 'required';

/** What a scan thread is told when it starts. */
export interface ThreadSettings {
  readonly sandbox: SandboxMode;
}

/** To the thread. The content is transferred, so nobody else can write to it meanwhile. */
export interface ScanTask {
  readonly content: ArrayBuffer;
  /** Bytes of the content that count; the rest of the buffer is spare room. */
  readonly sizeBytes: number;
}

/** Back from the thread, with the content. */
export type ScanTaskResult =
  | {
      readonly kind: 'answered';
      readonly answer: EngineAnswer;
      readonly durationMs: number;
      readonly content: ArrayBuffer;
    }
  | { readonly kind: 'failed'; readonly message: string; readonly content: ArrayBuffer };
