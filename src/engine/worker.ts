// The entry of a scan thread: hands the content to ClamAV and to YARA rules, in place, and sends it back with the answer.
import { readlinkSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { move, transferableSymbol, valueSymbol, workerData } from 'piscina';
import { scanBuffer } from './addon.js';
import { createConfinement } from './sandbox.js';
import type { RuleSet, ScanTask, ScanTaskResult, ThreadSettings } from './task.js';
import { type RawAnswer, readAnswer } from './verdict.js';
import { compileRules, loadYara, type RuleScanner } from './yara.js';

const settings: ThreadSettings = workerData;
const confine = createConfinement(settings.sandbox, loadYara);

/** The kernel's number of this thread, asked for before its first content; null: there is no /proc. */
export function threadId(): number | null {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1));
  } catch {
    return null;
  }
}

/** The task's handler: never throws, so the content always comes back. */
export function scanTask(task: ScanTask): unknown {
  const result = scan(task);
  // Piscina's contract for handing memory over instead of copying it: an object that names what to transfer.
  return move({ [transferableSymbol]: result.content, [valueSymbol]: result });
}

const CL_CLEAN = 0;
const CL_VIRUS = 1;

function scan({ content, sizeBytes, clamav, rules }: ScanTask): ScanTaskResult {
  try {
    // Before the first content.
    confine(clamav);
    const scanner = rules === null ? null : scannerFor(rules);
    const startedMs = performance.now();
    const bytes = new Uint8Array(content, 0, sizeBytes);
    const native = clamav ? scanBuffer(bytes) : null;
    const answer = scanner === null && native !== null ? native : withRules(native, bytes, scanner);
    const nativeEpoch = native?.epoch ?? null;
    return { kind: 'answered', answer, nativeEpoch, durationMs: performance.now() - startedMs, content };
  } catch (error) {
    // An Error posted between threads loses its class: what crosses is its message.
    return { kind: 'failed', message: error instanceof Error ? error.message : String(error), content };
  }
}

/** What the rules find is added to what ClamAV found, unless that was a match already. */
function withRules(native: RawAnswer | null, bytes: Uint8Array, scanner: RuleScanner | null): RawAnswer {
  if (scanner === null) throw new Error('No engine and no rules to scan with');
  if (native !== null && readAnswer(native, 'allow').kind === 'infected') return native;
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
