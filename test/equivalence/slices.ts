// Parts of a database: everything in it but hashes of files and what gates can stand for, logical and extended signatures, and a share of those. An engine of it scans as much faster as it has fewer of them.
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { membersOf, readProgram } from '../../src/engine/clamav/gates/database-files.js';
import { isExtended } from '../../src/engine/clamav/gates/signature.js';
import { databaseFiles } from '../../src/engine/databases.js';

/** Of logical signatures, and of extended ones. */
const GATED = /\.[ln]db$/;
/** Hashes of whole files, which no gate has to do with, and which take seconds to load. */
const HASHES = /\.(hdb|hdu|hsb|hsu|mdb|mdu|msb|msu|imp)$/;

export interface Logical {
  readonly lines: readonly string[];
  /** Lines as well, of the bytecode programs in containers: what makes them run. */
  readonly triggers: readonly string[];
  /** All other files of the databases: to be linked as they are, and members of containers that had such signatures. */
  readonly others: readonly { readonly path: string }[];
  readonly members: readonly { readonly name: string; readonly content: Buffer }[];
}

export async function readLogical(database: string): Promise<Logical> {
  const texts: string[] = [];
  const others: { path: string }[] = [];
  const members: { name: string; content: Buffer }[] = [];
  const triggers: string[] = [];
  for (const path of await databaseFiles(database)) {
    if (HASHES.test(path)) continue;
    if (GATED.test(path)) {
      texts.push(readFileSync(path, 'latin1'));
      continue;
    }
    const within: { name: string; content: Buffer }[] = [];
    if (/\.(cvd|cld|cud)$/.test(path)) {
      for await (const { name, content } of membersOf(path, () => true))
        if (content !== null) within.push({ name, content });
    }
    triggers.push(...within.flatMap(({ content }) => readProgram(content)?.trigger ?? []));
    if (!within.some(({ name }) => GATED.test(name))) others.push({ path });
    else {
      for (const { name, content } of within) {
        if (GATED.test(name)) texts.push(content.toString('latin1'));
        else if (!HASHES.test(name)) members.push({ name, content });
      }
    }
  }
  const lines = texts.flatMap((text) => text.split(/\r?\n/)).filter((line) => line !== '' && !line.startsWith('#'));
  return { lines, triggers, others, members };
}

/** The lines of one of so many slices. */
export function linesOfSlice(lines: readonly string[], slice: number, slices: number): readonly string[] {
  return lines.filter((_, index) => index % slices === slice);
}

/** Writes a folder of databases with these signatures. */
export function writeSlice({ others, members }: Logical, lines: readonly string[], folder: string): void {
  mkdirSync(folder, { recursive: true });
  for (const { path } of others) symlinkSync(path, join(folder, basename(path)));
  for (const { name, content } of members) writeFileSync(join(folder, name), content);
  for (const [name, own] of Object.entries(sliceFiles(lines))) {
    // libclamav refuses an empty one.
    if (own.length > 0) writeFileSync(join(folder, name), `${own.join('\n')}\n`, 'latin1');
  }
}

const sliceFiles = (lines: readonly string[]): Readonly<Record<string, readonly string[]>> => ({
  'slice.ldb': lines.filter((line) => !isExtended(line)),
  'slice.ndb': lines.filter(isExtended),
});
