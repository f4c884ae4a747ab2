// The shapes on which the two sides of a scan thread agree, and how a scan and its answer lie in a slot of the memory that they share.
import type { MessagePort } from 'node:worker_threads';
import type { ThreadUrgency } from '../../cores.js';
import type { RawAnswer } from '../verdict.js';
import type { BellRope } from './bell.js';
import { SLOTS } from './ring.js';

/** YARA rules that were tried, for threads to compile. */
export interface RuleSet {
  /** Of this process: a thread compiles each set once. */
  readonly id: number;
  /** JSON of RuleUnits, in memory that all threads share. */
  readonly text: SharedArrayBuffer;
}

export interface EngineWork {
  /** The number of the engine in the native layer; null: ClamAV doesn't look, the rules are all there is. */
  readonly nativeEpoch: number | null;
  /** Null: no rules look. */
  readonly rules: RuleSet | null;
}

/** `auto`: scan threads are confined as far as the kernel can; `required`: they don't scan where it can't. */
export type SandboxMode = 'auto' | 'off' | 'required';

/** What all scan threads of a pool get when they start. */
export interface ThreadSettings {
  readonly sandbox: SandboxMode;
  /** Of the file of what is being scanned, open for writing; null: there is none. */
  readonly inFlight: number | null;
  /** There are several cores: threads that wait for each other look for a moment before they sleep. */
  readonly staysAwake: boolean;
}

/** What a thread begins with, as its worker data. */
export interface ThreadStart {
  readonly settings: ThreadSettings;
  readonly ring: SharedArrayBuffer;
  /** One for all threads: rung whenever there is something to take from any ring. */
  readonly bell: BellRope;
  readonly port: MessagePort;
  /** Of the thread, in the file of what is being scanned. */
  readonly place: number;
  readonly urgency: ThreadUrgency;
  /** ClamAV serves already: the first scan need not wait until the thread is confined. */
  readonly isConfinedAhead: boolean;
}

/** What doesn't fit into a slot goes ahead of it through the port, in the order of the slots. */
export type ToThread =
  | { readonly kind: 'memory'; readonly number: number; readonly memory: SharedArrayBuffer }
  | { readonly kind: 'rules'; readonly rules: RuleSet };

/** Of what the thread says by a message: all but a plain "clean". */
export type FromThread =
  | { readonly kind: 'answer'; readonly answer: RawAnswer }
  | { readonly kind: 'failed'; readonly message: string };

/** When engines looked again at what gates had hit, in milliseconds since the thread began with the content. */
export interface SecondLook {
  readonly beganMs: number;
  readonly endedMs: number;
}

/** Numbers of a slot. */
export const FIELD = {
  /** Of the memory that the content lies in, as the port has said. */
  memory: 0,
  offsetBytes: 1,
  sizeBytes: 2,
  /** 0 or 1. */
  clamav: 3,
  /** -1: none. */
  rulesId: 4,
  /** So many messages have gone ahead of it in all. */
  messages: 5,
  /** 1: the memory was made for this content, and goes with it. */
  isOnly: 6,
  /** 1: there is a digest. */
  hasDigest: 7,
  /** Of the answer: 0 for a plain "clean", 1: a message says what. */
  told: 8,
  /** 0: no ClamAV engine. */
  epoch: 9,
  durationMs: 10,
  /** The number of what ClamAV says the content is; 0: it hasn't said. */
  type: 11,
  /** Of `SecondLook`; both 0: no engine has looked again. */
  secondLookBeganMs: 12,
  secondLookEndedMs: 13,
} as const;

/** Words before the slots: those of the ring, the kernel's number of the thread, and whether it sleeps (ring.ts). */
export const THREAD_ID = 2;
/** The thread has not said its number yet; and: it can't know it. */
export const ID_UNSAID = 0;
export const ID_UNKNOWN = -1;

const HEAD_BYTES = 64;
const FIELDS = 16;
const DIGEST_BYTES = 64;
const SLOT_BYTES = FIELDS * Float64Array.BYTES_PER_ELEMENT + DIGEST_BYTES;
export const RING_BYTES = HEAD_BYTES + SLOTS * SLOT_BYTES;

export type RingMemory = ReturnType<typeof ringMemory>;
export type RingSlot = RingMemory['slots'][number];

export function ringMemory(ring: SharedArrayBuffer) {
  const slots = Array.from({ length: SLOTS }, (_, index) => {
    const at = HEAD_BYTES + index * SLOT_BYTES;
    const numbers = new Float64Array(ring, at, FIELDS);
    return { numbers, digest: Buffer.from(ring, at + numbers.byteLength, DIGEST_BYTES) };
  });
  return { words: new Int32Array(ring, 0, HEAD_BYTES / Int32Array.BYTES_PER_ELEMENT), slots };
}
