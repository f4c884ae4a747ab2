// One scan as the scan threads have it, from the moment that it asks for one until a thread has let go of its content. Protocols extend it.
import type { Unavailable } from '../../errors.js';
import type { Engine } from '../engine.js';
import { type ScanPolicy, usualPolicy, type Verdict } from '../verdict.js';
import type { FromThread, SecondLook } from './task.js';

/** `idle`: no thread is asked, or all is over. `ahead`: it lies ready at a thread, behind the scan that this one is at. */
export type ThreadScanState = 'idle' | 'waiting' | 'ahead' | 'running';

/** How a scan came to its thread: as the only account there was, beside others, or by a thread beside the set. */
export type TurnKind = 'alone' | 'shared' | 'standIn';

/**
 * Who asks for a thread sets the content before, and changes nothing of it until the last of the answers below. They are called from
 * within the threads' own turns, and may ask for the next scan at once. None of them may throw but the two ends of a scan that a thread was at, `onAnswer` and
 * `onLetGo`: the scan hears of it.
 */
export abstract class ThreadScan {
  /** Whose scan it is: turns go round by account. All scans without one belong to one. */
  account = '';
  /** The first `sizeBytes` of it are scanned, in place. */
  content: Uint8Array<SharedArrayBuffer> | null = null;
  sizeBytes = 0;
  /** Of the content: it names what is being scanned, if that crashes or hangs. */
  sha256: string | null = null;
  policy: ScanPolicy = usualPolicy;
  /** What ClamAV says the content is; null: nothing has said. */
  detectedType: string | null = null;
  /** Null: no engine has looked again. */
  secondLook: SecondLook | null = null;
  /** All by the clock of `performance`: the first two are set when it asks, the third since a thread is at it. */
  askedMs = 0;
  deadlineMs = 0;
  begunMs = 0;
  /** Null: no thread was at it. */
  turn: TurnKind | null = null;
  /** It is to be told when a thread is at it. */
  hearsTurn = false;

  // What follows is written by this room alone.
  /** Before the end is said it is `idle` again. */
  state: ThreadScanState = 'idle';
  /** It is in the lane for content over 1 MB. */
  isHeavy = false;
  /** The queue's account that answers for it: it waits, or has a thread that is not given up. */
  charged: object | null = null;
  /** In the line of its account. */
  before: ThreadScan | null = null;
  behind: ThreadScan | null = null;
  dueMs = 0;
  /** Which engine it was posted for. */
  engine: Engine | null = null;
  /** What the thread has said; null: a plain "clean". */
  said: FromThread | null = null;
  /** A thread takes the native engine that serves when it begins: it was not the one that was asked. */
  isOfAnother = false;
  lookedMs = 0;
  /** It was answered at its deadline, and a thread is still at it. */
  isOverdue = false;
  /** It was posted a second time: another scan may be at the thread before it. */
  isAgain = false;

  /** A thread is at it; only where it is to be told. */
  abstract onTurn(): void;
  /** The end: a thread has looked, and has let go of the content. `engine` null: none has looked, and the verdict is incomplete. */
  abstract onAnswer(verdict: Verdict, engine: Engine | null, durationMs: number): void;
  /** The end: no thread is at it (any more). An Error that isn't Unavailable: its thread has died. */
  abstract onRefused(reason: Unavailable | Error): void;
  /** The deadline has passed while a thread is at it. `starved`: most of the time went by before, which says nothing of the content. */
  abstract onOverdue(verdict: Verdict, starved: boolean, durationMs: number): void;
  /** The end, after `onOverdue`: the thread has let go of the content. */
  abstract onLetGo(): void;
  /** What came of it could not be dealt with, since its end has thrown this. Others must not suffer from it, least of all the one in whose turn it was. */
  abstract onBroken(error: unknown): void;
}
