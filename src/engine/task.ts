// The shapes on which the two sides of a scan thread agree: all of it plain data, since classes don't survive the crossing.
import type { EngineAnswer } from './addon.js';
import type { RawAnswer } from './verdict.js';

/** YARA rules that were tried, for threads to compile. */
export interface RuleSet {
  /** Of this process: a thread compiles each set once. */
  readonly id: number;
  /** JSON of RuleUnits, in memory that all threads share. */
  readonly text: SharedArrayBuffer;
}

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
  /** False: the rules are all there is. */
  readonly clamav: boolean;
  /** Null: none. */
  readonly rules: RuleSet | null;
}

/** Back from the thread, with the content. */
export type ScanTaskResult =
  | {
      readonly kind: 'answered';
      readonly answer: RawAnswer;
      /** Of the ClamAV engine that has looked; null when none did. */
      readonly nativeEpoch: EngineAnswer['epoch'] | null;
      readonly durationMs: number;
      readonly content: ArrayBuffer;
    }
  | { readonly kind: 'failed'; readonly message: string; readonly content: ArrayBuffer };
