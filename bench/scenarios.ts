// What is measured, as a table: each row is a set of files; every contestant scans the same bytes.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const KIB = 1024;

export type Files =
  /** One file made from a seed; every scan of it gets 8 bytes of its own, so no two contents are equal. */
  | { readonly kind: 'unique'; readonly sizeBytes: number }
  /** One file made from a seed, sent again and again. */
  | { readonly kind: 'repeated'; readonly sizeBytes: number }
  /** Files of this machine as they are; a round scans whole passes over all of them. */
  | MachineFiles
  /** The same, packed. */
  | PackedFiles
  /** As they are, in their order. */
  | { readonly kind: 'listed'; readonly paths: readonly string[] };

export interface MachineFiles {
  readonly kind: 'machine';
  readonly count: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  /** Programs of one format, no two of them equal; default: files of any kind. */
  readonly programs?: 'elf' | 'pe';
}

export interface PackedFiles {
  readonly kind: 'packed';
  /** A mail has one as its attachment; of archives every other one is a ZIP, and the others are tars in gzip. */
  readonly as: 'mail' | 'archive';
  readonly count: number;
  /** Files in each. */
  readonly each: number;
  readonly of: Pick<MachineFiles, 'minBytes' | 'maxBytes'>;
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
  {
    name: 'mail',
    files: { kind: 'packed', as: 'mail', count: 40, each: 1, of: { minBytes: KIB, maxBytes: 256 * KIB } },
  },
  {
    name: 'archives',
    files: { kind: 'packed', as: 'archive', count: 40, each: 8, of: { minBytes: KIB, maxBytes: 256 * KIB } },
  },
  // Those that Python's packages bring along, where there are some.
  { name: 'pe', files: { kind: 'machine', count: 12, minBytes: KIB, maxBytes: 2 * KIB * KIB, programs: 'pe' } },
];

/** One for each `NAME.list` of the folder, whose lines are paths from there. */
export function listedScenarios(folder: string): Scenario[] {
  const lists = readdirSync(folder).filter((name) => name.endsWith('.list'));
  return lists.toSorted().map((list) => {
    const lines = readFileSync(join(folder, list), 'utf8').split('\n');
    const paths = lines.filter((line) => line !== '').map((line) => resolve(folder, line));
    return { name: list.slice(0, -'.list'.length), files: { kind: 'listed', paths } };
  });
}

/** The promise on engine overhead: the service against the raw loop with as many threads. */
export const promise = { scenario: '100KB', contestant: 'sluice', ratioToRaw: 0.85 } as const;
