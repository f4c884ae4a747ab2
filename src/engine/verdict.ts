// The verdict: what a scan found out, as plain data that crosses threads, and the one reading of libclamav's answer.

export type Verdict =
  /** The whole content was looked at and nothing matched; `encrypted`: members that need a password were passed over. */
  | { readonly kind: 'clean'; readonly encrypted: boolean }
  /** A signature matched. */
  | { readonly kind: 'infected'; readonly virusName: string }
  /** Something was not looked at: never clean, never infected. */
  | { readonly kind: 'incomplete'; readonly reason: string };

/** What the addon says of one scan. */
export interface RawAnswer {
  /** `cl_error_t` of clamav.h: 0 is CL_CLEAN, 1 is CL_VIRUS. */
  readonly code: number;
  /** `cl_strerror(code)`. */
  readonly codeText: string;
  /** The name that came back with CL_VIRUS; it can be null. */
  readonly virusName: string | null;
  /** Every name the virus-found callback was given, in order. */
  readonly alerts: readonly string[];
}

export type EncryptedPolicy = 'allow' | 'reject';

const CL_CLEAN = 0;
const CL_VIRUS = 1;
const LIMIT = 'Heuristics.Limits.Exceeded';
const ENCRYPTED = 'Heuristics.Encrypted.';

/**
 * Reads libclamav's answer. Only CL_CLEAN without any alert is clean; a limit or an error is incomplete, because
 * libclamav itself calls such content clean or infected (clamav.h, CL_SCAN_HEURISTIC_EXCEEDS_MAX).
 */
export function readAnswer(answer: RawAnswer, encryptedPolicy: EncryptedPolicy): Verdict {
  const names = answer.virusName === null ? answer.alerts : [...answer.alerts, answer.virusName];
  const match = names.find((name) => !name.startsWith(LIMIT) && !name.startsWith(ENCRYPTED));
  if (match !== undefined) return { kind: 'infected', virusName: match };

  const limit = names.find((name) => name.startsWith(LIMIT));
  if (limit !== undefined) return { kind: 'incomplete', reason: limitReason(limit) };
  if (answer.code !== CL_CLEAN && answer.code !== CL_VIRUS) {
    return { kind: 'incomplete', reason: `engine error: ${answer.codeText}` };
  }
  const encrypted = names.some((name) => name.startsWith(ENCRYPTED));
  if (encrypted && encryptedPolicy === 'reject') return { kind: 'incomplete', reason: 'content is encrypted' };
  if (answer.code === CL_VIRUS && !encrypted) {
    return { kind: 'incomplete', reason: 'engine reported a match without a name' };
  }
  return { kind: 'clean', encrypted };
}

/** `Heuristics.Limits.Exceeded.MaxScanSize` -> `engine limit exceeded: MaxScanSize`. */
function limitReason(name: string): string {
  const which = name.slice(LIMIT.length + 1).replace('.UNOFFICIAL', '');
  return which === '' ? 'engine limit exceeded' : `engine limit exceeded: ${which}`;
}
