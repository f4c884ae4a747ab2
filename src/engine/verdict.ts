// The verdict: what a scan found out, as plain data that crosses threads, and the one reading of libclamav's answer.

export type Verdict =
  /** The whole content was looked at and nothing matched. */
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
