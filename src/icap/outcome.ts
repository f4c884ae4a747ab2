// What a scan means for the one who asked: the body may pass, it is blocked, or nobody could tell.
import { Failure } from '../errors.js';
import type { ScanFacts } from '../scan/scan-facts.js';

/** What becomes of what could not be looked at as a whole. */
export type IncompletePolicy = 'block' | 'pass';

export type Outcome =
  /** `notice`: what the client should know all the same. */
  | { readonly kind: 'pass'; readonly notice: string | null }
  | { readonly kind: 'infected'; readonly virusName: string; readonly filename: string }
  | { readonly kind: 'incomplete'; readonly reason: string; readonly filename: string }
  /** The client decides, by its own setting for a service that fails. */
  | { readonly kind: 'error'; readonly status: number; readonly reason: string };

export const NOTHING_TO_SCAN: Outcome = { kind: 'pass', notice: null };

/** ICAP's 408 and 5xx are not HTTP's: their texts are in answers.ts. */
const TIMEOUT = 408;
const OVERLOADED = 503;
const SERVER_ERROR = 500;
const BYTES_PER_MB = 1024 * 1024;

export interface OutcomeSettings {
  readonly incomplete: IncompletePolicy;
  readonly limitBytes: number;
}

export function outcomeOf(scan: ScanFacts, { incomplete, limitBytes }: OutcomeSettings): Outcome {
  const { verdict, problem, filename } = scan;
  if (verdict?.kind === 'infected') return { kind: 'infected', virusName: verdict.virusName, filename };
  if (verdict !== null) return { kind: 'pass', notice: scan.notices.join(', ') || null };
  const reason = reasonOf(problem, limitBytes);
  if (reason === null) return errorOf(problem, scan.requestId);
  // What isn't there as a whole can't be sent back; with a 204 the client has it itself.
  return incomplete === 'pass' ? { kind: 'pass', notice: reason } : { kind: 'incomplete', reason, filename };
}

const ORDER: readonly Outcome['kind'][] = ['infected', 'incomplete', 'error', 'pass'];

/** Of several contents of one body. What is said of those that pass is said together. */
export function worstOf(outcomes: readonly Outcome[]): Outcome {
  const kind = ORDER.find((each) => outcomes.some((outcome) => outcome.kind === each));
  const found = outcomes.find((outcome) => outcome.kind === kind);
  if (found !== undefined && found.kind !== 'pass') return found;
  const notices = outcomes.flatMap((outcome) =>
    outcome.kind === 'pass' && outcome.notice !== null ? outcome.notice : [],
  );
  return { kind: 'pass', notice: [...new Set(notices)].join(', ') || null };
}

/** Why the content could not be looked at as a whole; null: it is not the content's. */
function reasonOf(problem: unknown, limitBytes: number): string | null {
  if (!(problem instanceof Failure)) return null;
  if (problem.code === 'fileTooLarge') return `The content is over ${Math.floor(limitBytes / BYTES_PER_MB)} MB`;
  return problem.code === 'scanIncomplete' ? problem.message : null;
}

export function errorOf(problem: unknown, requestId: string): Outcome {
  if (!(problem instanceof Failure))
    return { kind: 'error', status: SERVER_ERROR, reason: `Internal error ${requestId}` };
  const status = problem.code === 'uploadTooSlow' ? TIMEOUT : OVERLOADED;
  return { kind: 'error', status, reason: problem.message };
}
