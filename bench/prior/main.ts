// `npm run prior`: fetches packages, lets libclamav open their files, counts what clean content is made of, and makes the file that ships.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { ownSignaturesDirectory, priorPath } from '../../src/paths.js';
import { compile, windowsProgram } from '../compile.js';
import { buildPrior, type Level, readCounts, renewFormats } from './build.js';
import { chooseDocuments, isOfHalf, type Kind, kinds } from './documents.js';
import { fetchPackages, type ListName, readPackages } from './packages.js';

const print = (text: string): void => void process.stdout.write(`${text}\n`);
const PROGRESS_PACKAGES = 50;

/** Of one package: many of what signatures look into most, and of what packages have most of, a few. */
const MANY: ReadonlySet<Kind> = new Set<Kind>(['windows', 'elf', 'pdf', 'ole2', 'office', 'archive', 'jpeg', 'mail']);
const DOCUMENTS_OF_A_KIND = 400;
const DOCUMENTS_OF_OTHERS = 10;

/**
 * By class: nine of ten gates are for programs for Windows, and these cost most. There each window counts that was seen twice, in one bit,
 * since a pattern is common only where all of its windows are.
 */
const LEVELS: ReadonlyMap<number, Level> = new Map([
  [0, { units: 3, share: 0.004, bits: 2 }],
  [1, { units: 2, share: 0, bits: 1 }],
  [2, { units: 2, share: 0, bits: 4 }],
  [3, { units: 2, share: 0, bits: 2 }],
  [4, { units: 2, share: 0, bits: 4 }],
  [5, { units: 3, share: 0, bits: 2 }],
  [6, { units: 3, share: 0.014, bits: 1 }],
  [7, { units: 3, share: 0.008, bits: 1 }],
  [9, { units: 4, share: 0, bits: 1 }],
  [10, { units: 3, share: 0.006, bits: 2 }],
  [12, { units: 3, share: 0.025, bits: 1 }],
]);

/** Of the files that are listed. */
const LISTED_OF_A_PACKAGE = 5;
const LISTED_OF_A_KIND = 40;
const LISTED_OF_DEBIAN = 300;

async function fetchList(list: ListName, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const packages = await readPackages(list);
  const missing = await fetchPackages(packages, folder, (done) => {
    if (done % PROGRESS_PACKAGES === 0) print(`${done} of ${packages.length} packages`);
  });
  for (const { registry, name, version } of missing) print(`not to be had: ${registry} ${name} ${version}`);
}

async function count(folder: string, output: string, { half }: { readonly half?: string }): Promise<void> {
  const documents = await chooseDocuments(folder, {
    ofKind: (kind) => (MANY.has(kind) ? DOCUMENTS_OF_A_KIND : DOCUMENTS_OF_OTHERS),
    ...(half !== undefined && { isChosen: (name: string) => isOfHalf(name, half) }),
  });
  const list = join(output, 'documents.txt');
  await mkdir(output, { recursive: true });
  await writeFile(list, documents.map((one) => `${one.package}\t${one.path}\n`).join(''));
  const windows = documents.filter(({ kind }) => kind === 'windows').length;
  print(`${documents.length} documents, ${windows} of them programs for Windows`);
  const program = await compile(windowsProgram);
  const child = spawn(program, [join(ownSignaturesDirectory, 'sluice.hdb'), list, join(output, 'counts')], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const [code]: unknown[] = await once(child, 'exit');
  if (code !== 0) throw new Error(`the count ended with ${code}`);
}

/**
 * Lists of files for `npm run bench -- --lists`: some of each kind, few of one package; `uploads`, all of these that are no programs; and `debian`,
 * whatever packages of Debian hold, the packages themselves among it.
 */
async function list(folder: string, output: string): Promise<void> {
  const found = await chooseDocuments(folder, { ofKind: () => LISTED_OF_A_PACKAGE });
  const listed = kinds.flatMap((kind) => {
    const ofKind = found.filter((one) => one.kind === kind && kind !== 'other');
    return ofKind.sort((a, b) => a.rank.localeCompare(b.rank)).slice(0, LISTED_OF_A_KIND);
  });
  await mkdir(output, { recursive: true });
  const programs: readonly Kind[] = ['windows', 'elf'];
  const ofDebian = found.filter((one) => one.package.startsWith('debian-'));
  const lists = [
    ['debian', ofDebian.sort((a, b) => a.rank.localeCompare(b.rank)).slice(0, LISTED_OF_DEBIAN)] as const,
    ...programs.map((kind) => [kind, listed.filter((one) => one.kind === kind)] as const),
    ['uploads', listed.filter(({ kind }) => !programs.includes(kind))] as const,
  ];
  for (const [name, documents] of lists) {
    await writeFile(join(output, `${name}.list`), documents.map(({ path }) => `${resolve(path)}\n`).join(''));
    print(`${name}: ${documents.length} files`);
  }
}

async function build(paths: readonly string[], { output }: { readonly output: string }): Promise<void> {
  const counted = await readCounts(paths);
  const { units, windows } = counted;
  for (const [target, ofClass] of units.entries()) {
    const repeated = windows[target]?.reduce((sum, number) => sum + number, 0) ?? 0;
    print(`class ${target}: ${ofClass} units, ${repeated} windows in two or more`);
  }
  print(`${await buildPrior(counted, output, LEVELS)} bytes`);
}

const command = new Command('npm run prior --').description(
  'Counts what clean content is made of. bench/README.md says how the file that ships was made.',
);
command
  .command('fetch')
  .description('downloads and unpacks the packages of a list')
  .argument('<list>', 'training or held-out')
  .argument('<folder>')
  .action(fetchList);
command
  .command('count')
  .description('counts windows in the packages of a folder; takes 5 GB of memory')
  .argument('<folder>', 'with a folder for each package')
  .argument('<output>', 'a folder for the counts')
  .option('--half <seed>', 'about half of the packages, chosen at random from the seed')
  .action(count);
command
  .command('list')
  .description('lists some files of each kind, for `npm run bench -- --lists`')
  .argument('<folder>', 'with a folder for each package of the list held-out')
  .argument('<output>', 'a folder for the lists')
  .action(list);
command
  .command('build')
  .description('makes the file that ships of one count or several; takes 3 GB of memory')
  .argument('<counts...>')
  .option('--output <file>', 'the file', priorPath)
  .action(build);
command
  .command('formats')
  .description('renews what formats say in the file that ships, beside what was counted')
  .action(async () => print(`${await renewFormats(priorPath)} bytes`));
await command.parseAsync();
