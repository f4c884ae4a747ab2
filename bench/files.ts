// Makes a scenario's list of files in a temporary folder: generated ones from a seed, or a fixed choice of this machine's.
import { createCipheriv, createHash } from 'node:crypto';
import { open, opendir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzip, mail, tar, zip } from '../test/fixtures/archives.js';
import { type MachineFiles, type PackedFiles, type Scenario, scenarios } from './scenarios.js';

const MACHINE_ROOTS = ['/usr/bin', '/usr/lib', '/usr/share'];
const SEED = 'sluice bench 1';
const LEARNING_BYTES_MAX = 4 * 1024 * 1024;

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

/** Whether there is anything for the scenario on this machine. */
export async function hasFiles({ files }: Scenario): Promise<boolean> {
  return files.kind !== 'machine' || (await chooseOfMachine({ ...files, count: 1 })).length > 0;
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
  if (files.kind === 'listed') return files.paths;
  if (files.kind === 'packed') return await pack(name, files, folder);
  const path = join(folder, `${name}.bin`);
  await writeFile(path, seededBytes(name, files.sizeBytes));
  return [path];
}

/** Each of files that no other one has. */
async function pack(name: string, { as, count, each, of }: PackedFiles, folder: string): Promise<readonly string[]> {
  const members = await chooseOfMachine({ kind: 'machine', count: count * each, ...of });
  const packed: string[] = [];
  for (let index = 0; index < Math.floor(members.length / each); index += 1) {
    const own = members.slice(index * each, (index + 1) * each);
    const contents = await Promise.all(own.map((path) => readFile(path)));
    const path = join(folder, `${name}-${index}`);
    await writeFile(path, as === 'mail' ? mail(Buffer.concat(contents)) : archiveOf(contents, index));
    packed.push(path);
  }
  return packed;
}

function archiveOf(contents: readonly Buffer[], index: number): Buffer {
  const members = contents.map((content, at) => ({ name: `file-${at}`, content }));
  return index % 2 === 0 ? zip(members) : gzip(tar(members));
}

/** Bytes that look random and are the same everywhere: an AES-CTR key stream. */
function seededBytes(name: string, sizeBytes: number): Buffer {
  const key = createHash('sha256').update(`${SEED} ${name}`).digest();
  return createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(sizeBytes));
}

/** In the order of their path's hash: a fixed choice that favours no folder. */
async function chooseOfMachine({ count, minBytes, maxBytes, programs }: MachineFiles): Promise<readonly string[]> {
  const chosen: string[] = [];
  const digests = new Set<string>();
  for (const path of await machineFiles()) {
    if (chosen.length === count) break;
    if (programs === 'pe' && !PE_NAME.test(path)) continue;
    const { size } = await stat(path);
    if (size < minBytes || size > maxBytes) continue;
    if (programs !== undefined) {
      if ((await formatOf(path)) !== programs) continue;
      const digest = createHash('sha256')
        .update(await readFile(path))
        .digest('hex');
      if (digests.has(digest)) continue;
      digests.add(digest);
    }
    chosen.push(path);
  }
  return chosen;
}

/** So many files of any kind, and a tenth as many programs of each format: what no scenario has. */
export async function chooseForLearning(count: number): Promise<readonly string[]> {
  const taken = new Set<string>();
  for (const { files } of scenarios) {
    if (files.kind === 'machine') for (const path of await chooseOfMachine(files)) taken.add(path);
    if (files.kind !== 'packed') continue;
    const { count, each, of } = files;
    for (const path of await chooseOfMachine({ kind: 'machine', count: count * each, ...of })) taken.add(path);
  }
  const learned = new Set<string>();
  const bounds = { kind: 'machine', minBytes: 1, maxBytes: LEARNING_BYTES_MAX } as const;
  const wanted: readonly MachineFiles[] = [
    { ...bounds, count },
    { ...bounds, count: count / 10, programs: 'elf' },
    { ...bounds, count: count / 10, programs: 'pe' },
  ];
  for (const files of wanted) {
    const found = await chooseOfMachine({ ...files, count: Math.ceil(files.count) + taken.size });
    const fresh = found.filter((path) => !taken.has(path));
    for (const path of fresh.slice(0, Math.ceil(files.count))) learned.add(path);
  }
  return [...learned];
}

let ranked: readonly string[] | null = null;

async function machineFiles(): Promise<readonly string[]> {
  if (ranked !== null) return ranked;
  const found: { path: string; rank: string }[] = [];
  for (const root of MACHINE_ROOTS) {
    for await (const path of walk(root)) {
      found.push({ path, rank: createHash('sha256').update(`${SEED} ${path}`).digest('hex') });
    }
  }
  found.sort((a, b) => (a.rank < b.rank ? -1 : 1));
  ranked = found.map(({ path }) => path);
  return ranked;
}

const PE_HEADER_AT = 0x3c;
/** Few machines have enough of them, so every file would be opened to look for more. */
const PE_NAME = /\.(?:exe|dll|sys|efi)$/i;

/** By how it begins; null: no program. */
async function formatOf(path: string): Promise<MachineFiles['programs'] | null> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4096), 0, 4096, 0);
    const begins = buffer.subarray(0, bytesRead).toString('latin1');
    if (begins.startsWith('\x7fELF')) return 'elf';
    if (!begins.startsWith('MZ') || bytesRead < PE_HEADER_AT + 4) return null;
    return begins.startsWith('PE\0\0', buffer.readUInt32LE(PE_HEADER_AT)) ? 'pe' : null;
  } finally {
    await file.close();
  }
}

async function* walk(folder: string): AsyncGenerator<string> {
  for await (const entry of await opendir(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else if (entry.isFile() && !path.includes('\n')) yield path;
  }
}
