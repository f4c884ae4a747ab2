// The entry of a scan thread: takes scans from its ring, has ClamAV and YARA rules look at the content in place, and puts the answers back.
import { readlinkSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { takeUrgency } from '../../cores.js';
import { messageOfError } from '../../error-text.js';
import { epochOf, scanPlain, typeOf } from '../clamav/addon.js';
import { PLAINLY_CLEAN, type RawAnswer, readAnswer, usualPolicy } from '../verdict.js';
import { compileRules, loadYara, type RuleScanner } from '../yara/yara-x.js';
import { takeRope } from './bell.js';
import { createNote, NO_SLOT, sleeper, ThreadRing } from './ring.js';
import { createConfinement } from './sandbox.js';
import {
  FIELD,
  type FromThread,
  ID_UNKNOWN,
  type RingSlot,
  type RuleSet,
  ringMemory,
  type SandboxMode,
  THREAD_ID,
  type ThreadStart,
  type ToThread,
} from './task.js';

/** As long as the thread lasts. */
export function serveScans(start: ThreadStart): never {
  const { settings, ring, bell, port, place, isConfinedAhead } = start;
  takeUrgency(start.urgency);
  const { words, slots } = ringMemory(ring);
  const side = new ThreadRing(words);
  const note = createNote(settings.inFlight, place);
  const ringOut = takeRope(bell);
  const sleep = sleeper(words, settings.staysAwake);
  const look = createLook(
    createPost(port),
    isConfinedAhead ? confinedAhead(settings.sandbox) : createConfinement(settings.sandbox, loadYara),
  );
  Atomics.store(words, THREAD_ID, threadId() ?? ID_UNKNOWN);
  ringOut();
  for (;;) {
    const at = side.begin();
    const slot = at === NO_SLOT ? undefined : slots[at];
    if (slot === undefined) {
      note.leave();
      sleep(side.seen());
      continue;
    }
    // Before the content is looked at: a crash must not be faster.
    if (slot.numbers[FIELD.hasDigest] === 1) note.enter(slot.digest);
    else note.leave();
    look(slot);
    side.end();
    ringOut();
  }
}

function confinedAhead(sandbox: SandboxMode): (byClamav: boolean) => void {
  const confine = createConfinement(sandbox, loadYara);
  try {
    confine(true);
  } catch {
    // It is thrown once more before each scan, which says it.
  }
  return confine;
}

/** The kernel's number of this thread; null: there is no /proc. */
function threadId(): number | null {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1));
  } catch {
    return null;
  }
}

type Post = ReturnType<typeof createPost>;

/** What has come through the port, and what goes out by it. */
function createPost(port: MessagePort) {
  const memories = new Map<number, SharedArrayBuffer>();
  let rules: RuleSet | null = null;
  let received = 0;
  function receive(count: number): void {
    for (; received < count; received += 1) {
      const message: ToThread | undefined = receiveMessageOnPort(port)?.message;
      if (message === undefined) throw new Error('A message to a scan thread is missing');
      if (message.kind === 'memory') memories.set(message.number, message.memory);
      else rules = message.rules;
    }
  }
  return {
    /** The content of a scan, once all that went ahead of it is there. */
    contentOf(numbers: Float64Array): Uint8Array {
      receive(numbers[FIELD.messages] ?? 0);
      const memory = memories.get(numbers[FIELD.memory] ?? -1);
      if (memory === undefined) throw new Error('The memory of a content is unknown');
      return new Uint8Array(memory, numbers[FIELD.offsetBytes], numbers[FIELD.sizeBytes]);
    },
    /** The rules of a scan; null: none. */
    rulesOf: (numbers: Float64Array): RuleSet | null => (rules?.id === numbers[FIELD.rulesId] ? rules : null),
    forget(numbers: Float64Array): void {
      if (numbers[FIELD.isOnly] === 1) memories.delete(numbers[FIELD.memory] ?? -1);
    },
    tell: (message: FromThread): void => port.postMessage(message),
  };
}

const CL_CLEAN = 0;
const CL_VIRUS = 1;

/** Returns what looks at a content and puts the answer beside it. That never throws, so that every scan has an answer. */
function createLook(post: Post, confine: (byClamav: boolean) => void): (slot: RingSlot) => void {
  function look({ numbers }: RingSlot): void {
    const bytes = post.contentOf(numbers);
    const rules = post.rulesOf(numbers);
    const clamav = numbers[FIELD.clamav] === 1;
    // Before the first content is looked at.
    confine(clamav);
    const scanner = rules === null ? null : scannerFor(rules);
    const startedMs = performance.now();
    const native = clamav ? scanPlain(bytes) : null;
    const answer = scanner === null && native !== null ? native : withRules(wholeAnswer(native), bytes, scanner);
    numbers[FIELD.durationMs] = performance.now() - startedMs;
    numbers[FIELD.epoch] = typeof native === 'number' ? epochOf(native) : (native?.epoch ?? 0);
    numbers[FIELD.type] = typeof native === 'number' ? typeOf(native) : (native?.type ?? 0);
    const looked = typeof native === 'number' ? null : native;
    numbers[FIELD.secondLookBeganMs] = looked?.secondLookBeganMs ?? 0;
    numbers[FIELD.secondLookEndedMs] = looked?.secondLookEndedMs ?? 0;
    const isPlainly = typeof answer === 'number' || isPlain(answer);
    if (!isPlainly) post.tell({ kind: 'answer', answer });
    numbers[FIELD.told] = isPlainly ? 0 : 1;
  }
  return (slot) => {
    try {
      look(slot);
    } catch (error) {
      // An Error posted between threads loses its class: what crosses is its message.
      post.tell({ kind: 'failed', message: messageOfError(error) });
      slot.numbers[FIELD.told] = 1;
    }
    post.forget(slot.numbers);
  };
}

function isPlain({ code, alerts, storageFailed }: RawAnswer): boolean {
  return code === CL_CLEAN && alerts.length === 0 && storageFailed !== true;
}

function wholeAnswer(native: RawAnswer | number | null): RawAnswer | null {
  return typeof native === 'number' ? PLAINLY_CLEAN : native;
}

/** What the rules find is added to what ClamAV found, unless that was a match already. */
function withRules(native: RawAnswer | null, bytes: Uint8Array, scanner: RuleScanner | null): RawAnswer {
  if (scanner === null) throw new Error('No engine and no rules to scan with');
  if (native !== null && readAnswer(native, usualPolicy).kind === 'infected') return native;
  const names = scanner.scan(bytes);
  if (native !== null) return { ...native, alerts: [...native.alerts, ...names] };
  const code = names.length === 0 ? CL_CLEAN : CL_VIRUS;
  return { code, codeText: code === CL_CLEAN ? 'nothing matched' : 'a rule matched', virusName: null, alerts: names };
}

/** Compiled by this thread: YARA-X has no form of compiled rules that threads could share. */
let compiled: { readonly id: number; readonly scanner: RuleScanner } | null = null;

function scannerFor({ id, text }: RuleSet): RuleScanner {
  if (compiled?.id !== id) {
    // The old ones first: both at a time would be twice the memory, on each thread.
    compiled = null;
    compiled = { id, scanner: compileRules(JSON.parse(Buffer.from(text).toString('utf8'))) };
  }
  return compiled.scanner;
}
