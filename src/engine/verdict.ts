// The verdict: what a scan found out, as plain data that crosses threads, and the one reading of libclamav's answer.

export type Verdict =
  /**
   * The whole content was looked at and nothing matched; `encrypted`: except for members that need a password. `truncated`: something
   * in it ends before its time, and all that is there was looked at. `suspected`: the name of a heuristic, which was not to count.
   */
  | { readonly kind: 'clean'; readonly encrypted: boolean; readonly truncated?: true; readonly suspected?: string }
  | { readonly kind: 'infected'; readonly virusName: string }
  /** Something was not looked at: never clean, never infected. */
  | { readonly kind: 'incomplete'; readonly reason: string }
  /** Nothing is known of the content: there was no room to unpack it, and this content was not the reason. */
  | { readonly kind: 'failed'; readonly reason: string };

/** All of the content was looked at. */
export type CompleteVerdict = Exclude<Verdict, { kind: 'incomplete' | 'failed' }>;

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
  /** The temporary folder was full, and this content was not the reason. */
  readonly storageFailed?: boolean;
}

/** Of a content about which there is nothing to say. */
export const PLAINLY_CLEAN: RawAnswer = Object.freeze({
  code: 0,
  codeText: 'No viruses detected',
  virusName: null,
  alerts: [],
});
export const CLEAN: CompleteVerdict = Object.freeze({ kind: 'clean', encrypted: false });

export const encryptedPolicies = ['allow', 'reject'] as const;
export type EncryptedPolicy = (typeof encryptedPolicies)[number];
export const heuristicsPolicies = ['on', 'off'] as const;

/** By what an answer is read. */
export interface ScanPolicy {
  readonly encrypted: EncryptedPolicy;
  /** `off`: what the engine merely suspects is no infection. */
  readonly heuristics: (typeof heuristicsPolicies)[number];
}

/** Unless somebody says otherwise. */
export const usualPolicy: ScanPolicy = { encrypted: 'allow', heuristics: 'on' };

const CL_CLEAN = 0;
const CL_VIRUS = 1;
/** Beginnings of the names that mean "not looked at everything": the strings of libclamav 1.4.6. */
const LIMITS = ['Heuristics.Limits.Exceeded', 'Heuristics.XZ.DicSizeLimit'];
/** Beginnings of the names that mean an encrypted member: of libclamav, and of our own marks (signatures/marks/). */
const ENCRYPTED = ['Heuristics.Encrypted.', 'Sluice.Mark.Encrypted.'];
/** The beginning of the marks of content that can't be unpacked; the rest of the name says what it is. */
const UNSCANNED = 'Sluice.Mark.Unscanned.';
/** What the native layer says of containers (native/layers.h): the rest of the second is the reason. */
const TRUNCATED = 'Sluice.Mark.Truncated';
const INCOMPLETE = 'Sluice.Mark.Incomplete.';
/** The beginning of names that the engine gives by itself, without a signature; those above are among them. */
const HEURISTIC = 'Heuristics.';
/** Beginnings of all names that are no match. */
const NO_MATCH = [...LIMITS, ...ENCRYPTED, UNSCANNED, TRUNCATED, INCOMPLETE];

/**
 * Reads libclamav's answer. Only CL_CLEAN without any alert is clean; a limit or an error is incomplete, because
 * libclamav itself calls such content clean or infected (clamav.h, CL_SCAN_HEURISTIC_EXCEEDS_MAX).
 */
export function readAnswer(answer: RawAnswer, policy: ScanPolicy): Verdict {
  const names = answer.virusName === null ? answer.alerts : [...answer.alerts, answer.virusName];
  const matches = names.filter((name) => !NO_MATCH.some((beginning) => name.startsWith(beginning)));
  const match = policy.heuristics === 'on' ? matches[0] : matches.find((name) => !name.startsWith(HEURISTIC));
  if (match !== undefined) return { kind: 'infected', virusName: match };
  if (answer.storageFailed === true) return { kind: 'failed', reason: 'The engine has no room to unpack' };

  const limit = names.find(isLimit);
  if (limit !== undefined) return { kind: 'incomplete', reason: limitReason(limit) };
  const unscanned = names.find((name) => name.startsWith(UNSCANNED));
  if (unscanned !== undefined) return { kind: 'incomplete', reason: unscannedReason(unscanned) };
  const incomplete = names.find((name) => name.startsWith(INCOMPLETE));
  if (incomplete !== undefined) return { kind: 'incomplete', reason: incomplete.slice(INCOMPLETE.length) };
  if (answer.code !== CL_CLEAN && answer.code !== CL_VIRUS) {
    return { kind: 'incomplete', reason: `engine error: ${answer.codeText}` };
  }
  const encrypted = names.some(isEncrypted);
  if (encrypted && policy.encrypted === 'reject') return { kind: 'incomplete', reason: 'content is encrypted' };
  const [suspected] = matches;
  if (answer.code === CL_VIRUS && !encrypted && suspected === undefined) {
    return { kind: 'incomplete', reason: 'engine reported a match without a name' };
  }
  return {
    kind: 'clean',
    encrypted,
    ...(names.includes(TRUNCATED) ? { truncated: true } : {}),
    ...(suspected === undefined ? {} : { suspected }),
  };
}

/** Whether a verdict that was read by another policy is the same by this one. */
export function isSameBy(verdict: Verdict, policy: ScanPolicy): boolean {
  if (verdict.kind === 'clean')
    return !(verdict.encrypted && policy.encrypted === 'reject') && verdict.suspected === undefined;
  return verdict.kind === 'infected' && (policy.heuristics === 'on' || !verdict.virusName.startsWith(HEURISTIC));
}

/** What is said beside a verdict, in this order: the words of X-Scan-Notice and of the history. `notice`: that of the engine with each of its answers. */
export function noticesOf(verdict: CompleteVerdict, notice: string | null): readonly string[] {
  const notices: string[] = [];
  if (verdict.kind === 'clean') {
    if (verdict.encrypted) notices.push('encrypted');
    if (verdict.truncated === true) notices.push('truncated');
    if (verdict.suspected !== undefined) notices.push('suspected');
  }
  if (notice !== null) notices.push(notice);
  return notices;
}

const isLimit = (name: string): boolean => LIMITS.some((beginning) => name.startsWith(beginning));

const isEncrypted = (name: string): boolean => ENCRYPTED.some((beginning) => name.startsWith(beginning));

/** `Sluice.Mark.Unscanned.RAR.UNOFFICIAL` -> `engine cannot unpack RAR`. */
function unscannedReason(name: string): string {
  return `engine cannot unpack ${name.slice(UNSCANNED.length).replace('.UNOFFICIAL', '')}`;
}

/** `Heuristics.Limits.Exceeded.MaxScanSize` -> `engine limit exceeded: MaxScanSize`. */
function limitReason(name: string): string {
  return `engine limit exceeded: ${name.replace('.UNOFFICIAL', '').split('.').at(-1)}`;
}
