// The serving side of one scan thread: scans into its ring, their answers out of it, and what goes beside it through a port.
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { PLAINLY_CLEAN } from '../verdict.js';
import type { BellRope } from './bell.js';
import { atomicWords, servingSide, TURN } from './ring.js';
import {
  FIELD,
  type FromThread,
  ID_UNKNOWN,
  ID_UNSAID,
  RING_BYTES,
  ringMemory,
  type ScanTask,
  type ScanTaskResult,
  type Slot,
  THREAD_ID,
  type ThreadStart,
  type ToThread,
} from './task.js';

export interface Link {
  /** For the thread, once; the port goes with it. */
  readonly start: ThreadStart;
  /** As of Thread. */
  threadId(): number | null | undefined;
  hasRoom(): boolean;
  /** Calls back with the answer, in the order of the posts, from within `collect`; with null when the thread is gone. */
  post(task: ScanTask, onEnd: (result: ScanTaskResult | null) => void): void;
  /** Takes back what was posted last, whose answer then isn't called back; false: the thread has begun it. */
  takeBack(): boolean;
  /** Takes all answers that are there. */
  collect(): void;
  /** The thread is gone: what it had is answered with null. */
  end(): void;
}

type OnEnd = (result: ScanTaskResult | null) => void;

export function createLink(bell: BellRope, place: number): Link {
  const ring = new SharedArrayBuffer(RING_BYTES);
  const { words, slots } = ringMemory(ring);
  const side = servingSide(atomicWords(words));
  const { port1: port, port2: threadPort } = new MessageChannel();
  const posted: OnEnd[] = [];
  /** Memory that the thread knows by a number. */
  const numbers = new WeakMap<SharedArrayBuffer, number>();
  let memories = 0;
  let rulesId: number | null = null;
  let messages = 0;

  function tell(message: ToThread): void {
    port.postMessage(message);
    messages += 1;
  }

  /** The thread gets the number once for memory that later scans use as well. */
  function numberOf(memory: SharedArrayBuffer, isOnly: boolean): number {
    const known = numbers.get(memory);
    if (known !== undefined) return known;
    const number = memories++;
    if (!isOnly) numbers.set(memory, number);
    tell({ kind: 'memory', number, memory });
    return number;
  }

  function write({ numbers: fields, digest }: Slot, { content, sizeBytes, clamav, rules, sha256 }: ScanTask): void {
    const isOnly = content.byteLength === content.buffer.byteLength;
    fields[FIELD.memory] = numberOf(content.buffer, isOnly);
    fields[FIELD.isOnly] = isOnly ? 1 : 0;
    fields[FIELD.offsetBytes] = content.byteOffset;
    fields[FIELD.sizeBytes] = sizeBytes;
    fields[FIELD.clamav] = clamav ? 1 : 0;
    if (rules !== null && rules.id !== rulesId) tell({ kind: 'rules', rules });
    if (rules !== null) rulesId = rules.id;
    fields[FIELD.rulesId] = rules === null ? -1 : rules.id;
    fields[FIELD.hasDigest] = sha256 === null ? 0 : 1;
    if (sha256 !== null) digest.write(sha256, 'latin1');
    fields[FIELD.messages] = messages;
  }

  return {
    start: { ring, bell, port: threadPort, place },
    threadId() {
      const id = Atomics.load(words, THREAD_ID);
      if (id === ID_UNSAID) return undefined;
      return id === ID_UNKNOWN ? null : id;
    },
    hasRoom: side.hasRoom,
    post(task, onEnd) {
      const slot = slots[side.nextSlot()];
      if (slot === undefined || !side.hasRoom()) throw new Error('The thread has no room for another scan');
      write(slot, task);
      posted.push(onEnd);
      side.post();
      Atomics.notify(words, TURN);
    },
    takeBack() {
      if (!side.takeBack()) return false;
      posted.pop();
      return true;
    },
    collect() {
      for (let ended = side.endedSlot(); ended !== null; ended = side.endedSlot()) {
        const slot = slots[ended];
        const onEnd = posted.shift();
        if (slot === undefined || onEnd === undefined) throw new Error('A scan has ended that was not posted');
        const result = read(slot, port);
        side.taken();
        onEnd(result);
      }
    },
    end() {
      port.close();
      for (let onEnd = posted.shift(); onEnd !== undefined; onEnd = posted.shift()) onEnd(null);
    },
  };
}

function read({ numbers: fields }: Slot, port: MessagePort): ScanTaskResult {
  const told: FromThread | null = fields[FIELD.told] === 1 ? receiveMessageOnPort(port)?.message : null;
  if (told === undefined) throw new Error('A scan thread has answered without saying what');
  if (told?.kind === 'failed') return told;
  const epoch = fields[FIELD.epoch] ?? 0;
  return {
    kind: 'answered',
    answer: told?.answer ?? PLAINLY_CLEAN,
    nativeEpoch: epoch === 0 ? null : epoch,
    durationMs: fields[FIELD.durationMs] ?? 0,
  };
}
