// A process with one engine, with gates or without, that says what it finds in contents that it makes itself from their numbers.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { readAnswer, usualPolicy } from '../../src/engine/verdict.js';
import { loadEngine } from '../native/engine.js';
import { casesOf } from './cases.js';

export interface LookerOrder {
  readonly database: string;
  /** Where the files of gates are kept; null: no gates. */
  readonly store: string | null;
  readonly cases: Parameters<typeof casesOf>[0];
  /** Whether the engine matches in one pass. */
  readonly singlePass: boolean;
}

/** Numbers of contents, the last one not among them. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

const { database, store, cases: casesOrder, singlePass }: LookerOrder = JSON.parse(process.argv[2] ?? '{}');
const scratch = mkdtempSync(join('/dev/shm', 'sluice-equivalence-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
process.on('disconnect', () => process.exit());

const made = store === null ? {} : (await prepareGates([database], store)).options;
// Time must not decide between them.
const limits = { ...defaultEngineLimits, maxScanTimeMs: 600_000 };
await loadEngine({ directories: [database], temporaryDirectory: scratch, limits, ...made, singlePass });
const cases = casesOf(casesOrder);

function lookAt(number: number): string {
  const content = cases.at(number);
  // Nothing is what a content cut to nothing is.
  if (content === null || content.length === 0) return 'nothing';
  const verdict = readAnswer(scanBuffer(content), usualPolicy);
  if (verdict.kind === 'infected') return `infected ${verdict.virusName}`;
  return verdict.kind === 'clean' ? `clean ${verdict.encrypted}` : `${verdict.kind} ${verdict.reason}`;
}

process.on('message', ({ from, to }: Range) => {
  const verdicts = Array.from({ length: to - from }, (_, index) => lookAt(from + index));
  process.send?.({ verdicts });
});
process.send?.({ count: cases.count, makeable: cases.makeable });
