// What is measured, as a table: each row is a set of files; every contestant scans the same bytes.

const KIB = 1024;

export type Files =
  /** One file made from a seed; every scan of it gets 8 bytes of its own, so no two contents are equal. */
  | { readonly kind: 'unique'; readonly sizeBytes: number }
  /** One file made from a seed, sent again and again. */
  | { readonly kind: 'repeated'; readonly sizeBytes: number }
  /** Files of this machine as they are; a round scans whole passes over all of them. */
  | MachineFiles;

export interface MachineFiles {
  readonly kind: 'machine';
  readonly count: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  /** Programs of one format, no two of them equal; default: files of any kind. */
  readonly programs?: 'elf' | 'pe';
}

export interface Scenario {
  readonly name: string;
  readonly files: Files;
}

export const scenarios: readonly Scenario[] = [
  { name: '1KB', files: { kind: 'unique', sizeBytes: KIB } },
  { name: '1KB-again', files: { kind: 'repeated', sizeBytes: KIB } },
  { name: '100KB', files: { kind: 'unique', sizeBytes: 100 * KIB } },
  { name: '10MB', files: { kind: 'unique', sizeBytes: 10 * KIB * KIB } },
  { name: 'mixed', files: { kind: 'machine', count: 300, minBytes: 100, maxBytes: KIB * KIB } },
  { name: 'elf-small', files: { kind: 'machine', count: 40, minBytes: KIB, maxBytes: 64 * KIB, programs: 'elf' } },
  { name: 'elf', files: { kind: 'machine', count: 40, minBytes: 64 * KIB, maxBytes: 2 * KIB * KIB, programs: 'elf' } },
  // Those that Python's packages bring along, where there are some.
  { name: 'pe', files: { kind: 'machine', count: 12, minBytes: KIB, maxBytes: 2 * KIB * KIB, programs: 'pe' } },
];

/** The promise on engine overhead: the service against the raw loop with as many threads. */
export const promise = { scenario: '100KB', contestant: 'sluice', ratioToRaw: 0.85 } as const;
