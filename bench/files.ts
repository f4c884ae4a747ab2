// Makes a scenario's list of files in a temporary folder: generated ones from a seed, or a fixed choice of this machine's.
import { createCipheriv, createHash } from 'node:crypto';
import { opendir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Files, Scenario } from './scenarios.js';

const MACHINE_ROOTS = ['/usr/bin', '/usr/lib', '/usr/share'];
const SEED = 'sluice bench 1';

export interface FileSet {
  readonly scenario: string;
  readonly unique: boolean;
  /** A text file that names the files, one a line. */
  readonly listPath: string;
  readonly count: number;
  readonly totalBytes: number;
  /** Over the contents, in order: equal on two machines when they scanned the same bytes. */
  readonly sha256: string;
  /** Files that were chosen and left out because the engine doesn't call them clean. */
  readonly leftOut: number;
}

/** `isClean` says, for the files of a list, which are simply clean to the engine. */
export async function makeFileSet(
  scenario: Scenario,
  folder: string,
  isClean: (listPath: string, unique: boolean) => Promise<(index: number) => boolean>,
): Promise<FileSet> {
  const chosen = await chooseFiles(scenario, folder);
  const listPath = join(folder, `${scenario.name}.list`);
  await writeFile(listPath, lines(chosen));
  const unique = scenario.files.kind === 'unique';
  const clean = await isClean(listPath, unique);
  const kept = chosen.filter((_, index) => clean(index));
  if (kept.length === 0) throw new Error(`the engine calls no file of ${scenario.name} clean`);
  await writeFile(listPath, lines(kept));

  const hash = createHash('sha256');
  let totalBytes = 0;
  for (const path of kept) {
    const content = await readFile(path);
    hash.update(content);
    totalBytes += content.length;
  }
  return {
    scenario: scenario.name,
    unique,
    listPath,
    count: kept.length,
    totalBytes,
    sha256: hash.digest('hex'),
    leftOut: chosen.length - kept.length,
  };
}

function lines(paths: readonly string[]): string {
  return paths.map((path) => `${path}\n`).join('');
}

async function chooseFiles({ name, files }: Scenario, folder: string): Promise<readonly string[]> {
  if (files.kind === 'machine') return chooseOfMachine(files);
  const path = join(folder, `${name}.bin`);
  await writeFile(path, seededBytes(name, files.sizeBytes));
  return [path];
}

/** Bytes that look random and are the same everywhere: an AES-CTR key stream. */
function seededBytes(name: string, sizeBytes: number): Buffer {
  const key = createHash('sha256').update(`${SEED} ${name}`).digest();
  return createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(sizeBytes));
}

/** Files in the order of their path's hash: a fixed choice that favours no folder. */
async function chooseOfMachine(files: Extract<Files, { kind: 'machine' }>): Promise<readonly string[]> {
  const found: { path: string; rank: string }[] = [];
  for (const root of MACHINE_ROOTS) {
    for await (const path of walk(root)) {
      found.push({ path, rank: createHash('sha256').update(`${SEED} ${path}`).digest('hex') });
    }
  }
  found.sort((a, b) => (a.rank < b.rank ? -1 : 1));
  const chosen: string[] = [];
  for (const { path } of found) {
    const { size } = await stat(path);
    if (size >= files.minBytes && size <= files.maxBytes) chosen.push(path);
    if (chosen.length === files.count) break;
  }
  return chosen;
}

async function* walk(folder: string): AsyncGenerator<string> {
  for await (const entry of await opendir(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else if (entry.isFile() && !path.includes('\n')) yield path;
  }
}
