// The median of what the rounds of a bench have measured.

/** The middle of the values, or half way between the two in the middle. NaN: there is no value. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
  const upper = sorted[Math.ceil((sorted.length - 1) / 2)] ?? Number.NaN;
  return (lower + upper) / 2;
}
