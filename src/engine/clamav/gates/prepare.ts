// Makes the files of gates from the folders of signatures, once for each state of them, and keeps them in the data directory; for the thread that serves on a thread apart.
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { makeFolderAsync } from '../../../paths.js';
import { databaseFiles, fingerprint } from '../../databases.js';
import type { GateFiles, LoadOptions } from '../addon.js';
import { areFew, BODY_EXTENSIONS } from '../single-pass.js';
import { type Gate, keyOf, targetsOfLiterals } from './candidates.js';
import { membersOf, readProgram } from './database-files.js';
import { readNoise } from './noise.js';
import {
  type KeptReason,
  type Needs,
  needsOfLines,
  type PlanOptions,
  planGates,
  type Triggered,
  wantedWindows,
} from './plan.js';
import { type Prior, readLearned, readPrior } from './prior.js';
import { isExtended } from './signature.js';
import { onThread, type ThreadOrder } from './thread.js';

export interface GateFacts {
  /** Logical and extended signatures, those of bytecode programs among them, that are asked only when their gates hit. */
  readonly gated: number;
  readonly gates: number;
  /** Those that every content is asked about, by why. */
  readonly kept: Readonly<Partial<Record<KeptReason, number>>>;
  /** Gates that were given up because they hit clean content. */
  readonly noisy: number;
  /** Of clean files, learned. */
  readonly windows: number;
}

export interface PreparedGates {
  /** What the engine is loaded with; its `gates` are null where no signature has one. */
  readonly options: Required<Pick<LoadOptions, 'gates' | 'singlePass' | 'imageHashes' | 'madeOf'>>;
  readonly facts: GateFacts;
  /** Of each gate, by its number. */
  readonly keys: readonly string[];
}

/** Changes whenever the same databases make other files. */
const FORMAT = 19;
const FOLDERS_KEPT = 3;
/**
 * libclamav reports potentially unwanted things once each, at the end of a scan: a content that is full of a gate costs little
 * more than the matching.
 */
const GATE_PREFIX = 'PUA.Sluice.Gate.';
const MANIFEST = 'manifest.json';
const IMAGE_HASH = 'fuzzy_img';
const CONTAINERS = new Set(['.cvd', '.cld', '.cud']);
const LOGICAL = '.ldb';
const EXTENDED = '.ndb';
const BODIES = new Set([LOGICAL, EXTENDED]);
const PROGRAM = '.cbc';
/** They are listed line by line. */
const PROGRAM_NAME = /^[\w.-]+$/;
const FOR_TEXT = /^[^;]*;[^;]*\bTarget:7\b/;
const IGNORING = new Set(['.ign', '.ign2']);
/** What decides how content is taken apart, or which signatures and matches count: each engine needs it, beside its signatures. */
const SUPPORTING = new Set([...IGNORING, '.ftm', '.fp', '.sfp', '.idb', '.crb', '.cat', '.cfg', '.pwdb']);

/** Hashes of the windows that gates of these signatures can be made of, and that are not known to be in clean content. */
export async function windowsForGates(
  directories: readonly string[],
  directory: string,
  onProgress: (fraction: number) => void,
): Promise<Float64Array> {
  const found = await collect(directories);
  const { prior } = await readAll(directory);
  return wantedWindows([...found.lines, ...found.finders.map(({ trigger }) => trigger)], prior, onProgress);
}

/** What each of some signatures needs, with what is known of clean content there. */
export async function needsForPlan({
  lines,
  targets,
  directory,
}: Extract<ThreadOrder, { wants: 'needs' }>): Promise<readonly (Needs | null)[]> {
  return needsOfLines(lines, targets, await readAll(directory));
}

export interface PrepareOptions {
  /** Not to be read. */
  readonly prior?: null;
  /** That may look at signatures at a time, where it is read; default: this one alone. */
  readonly threads?: number;
  readonly onProgress?: (fraction: number) => void;
}

/** `directory`: where the files are kept. Rejects when a database can't be read. */
export async function prepareGates(
  directories: readonly string[],
  directory: string,
  { prior, threads = 1, onProgress = () => undefined }: PrepareOptions = {},
): Promise<PreparedGates> {
  const state = await fingerprint(directories);
  const read = await readAll(directory);
  const learned = prior === null ? { ...read, prior } : read;
  const folder = folderOf(directory, state, learned);
  const known = await readManifest(folder);
  if (known !== null) return await used(known, folder, state);
  await makeFolderAsync(directory);
  const draft = await mkdtemp(join(directory, DRAFT));
  try {
    const found = await collect(directories);
    const needs = await needsByThreads(found.lines, directory, threads, { ...learned, onProgress });
    const manifest = await write(found, draft, { ...learned, ...(needs === null ? { onProgress } : { needs }) });
    await writeFile(join(draft, MANIFEST), JSON.stringify(manifest));
    // Another process may have made the same meanwhile.
    await rename(draft, folder).catch(async (error: unknown) => {
      if ((await readManifest(folder)) === null) throw error;
    });
    return placed(manifest, folder, state);
  } finally {
    await rm(draft, { recursive: true, force: true });
    // What stays is removed the next time.
    await removeOld(directory).catch(() => undefined);
  }
}

type ApartOrder = Omit<Extract<ThreadOrder, { wants: 'gates' }>, 'wants'>;

/** As `prepareGates`, for the thread that serves: on a thread apart. There is no progress where they were made before. */
export async function prepareGatesApart(
  order: ApartOrder,
  onProgress?: (fraction: number) => void,
): Promise<PreparedGates> {
  const known = await knownGates(order.directories, order.directory);
  return known ?? (await onThread<PreparedGates>({ ...order, wants: 'gates' }, onProgress));
}

/** As `windowsForGates`, likewise. */
export function windowsForGatesApart(
  order: Omit<Extract<ThreadOrder, { wants: 'windows' }>, 'wants'>,
  onProgress: (fraction: number) => void,
): Promise<Float64Array> {
  return onThread<Float64Array>({ ...order, wants: 'windows' }, onProgress);
}

/** What is said of them; null: nothing was made yet. */
export async function preparedFacts(directories: readonly string[], directory: string): Promise<GateFacts | null> {
  const folder = folderOf(directory, await fingerprint(directories), await readAll(directory));
  return (await readManifest(folder))?.facts ?? null;
}

/** What was made of these folders as they are now; null: nothing yet. */
async function knownGates(directories: readonly string[], directory: string): Promise<PreparedGates | null> {
  const state = await fingerprint(directories);
  const folder = folderOf(directory, state, await readAll(directory));
  const known = await readManifest(folder);
  return known === null ? null : await used(known, folder, state);
}

/** The folders that were used last are kept. */
async function used(manifest: Manifest, folder: string, state: string): Promise<PreparedGates> {
  await utimes(folder, new Date(), new Date());
  return placed(manifest, folder, state);
}

/** What is known of clean content: by this server, and beforehand. */
interface Learned {
  readonly noisy: ReadonlySet<string>;
  readonly prior: Prior | null;
  /** How many the prior has of this server's. */
  readonly windows: number;
}

async function readAll(directory: string): Promise<Learned & { readonly prior: Prior }> {
  const windows = await readLearned(directory);
  return { noisy: await readNoise(directory), prior: await readPrior(windows), windows: windows.size };
}

function folderOf(directory: string, state: string, { noisy, prior }: Learned): string {
  const facts = JSON.stringify([FORMAT, state, [...noisy].sort(), prior?.digest]);
  return join(directory, createHash('sha256').update(facts).digest('hex').slice(0, 32));
}

/** Names of files in the folder, and what else is known. */
type Manifest = Awaited<ReturnType<typeof write>>;

const GATES_FILE = 'gates.ndb';
const LITERALS_FILE = 'literals.ndb';
const CONDITIONS_FILE = 'conditions.txt';
/** Begins the name of a folder that a process still writes to. */
const DRAFT = 'draft-';
const DRAFT_MS_MAX = 60 * 60 * 1000;

function placed(manifest: Manifest, folder: string, madeOf: string): PreparedGates {
  const inFolder = (name: string): string => join(folder, name);
  const { literalCount, shares, supports, databases, programs, mail, programShare, facts, keys } = manifest;
  const { singlePass, imageHashes } = manifest;
  const files: GateFiles = {
    gates: inFolder(GATES_FILE),
    literals: inFolder(LITERALS_FILE),
    literalCount,
    conditions: inFolder(CONDITIONS_FILE),
    gateCount: keys.length,
    shares: shares.map(inFolder),
    supports: [...supports.map(inFolder), ...databases],
    programs,
    mailShare: mail?.share ?? -1,
    mailBeginnings: mail?.beginnings ?? [],
    programShare: programShare ?? -1,
  };
  return { options: { gates: shares.length === 0 ? null : files, singlePass, imageHashes, madeOf }, facts, keys };
}

/** Null: there is none that is whole. It is the last file that is written. */
async function readManifest(folder: string): Promise<Manifest | null> {
  try {
    const manifest: Manifest = JSON.parse(await readFile(join(folder, MANIFEST), 'utf8'));
    return manifest;
  } catch {
    return null;
  }
}

/** A thread takes some hundredths of a second to start. */
const LINES_PER_THREAD_MIN = 4_000;

/** Null: one thread is enough, or the others would know more. */
async function needsByThreads(
  lines: readonly string[],
  directory: string,
  threads: number,
  known: Learned & Pick<PlanOptions, 'onProgress'>,
): Promise<readonly (Needs | null)[] | null> {
  const count = Math.min(threads, Math.floor(lines.length / LINES_PER_THREAD_MIN));
  if (count < 2 || known.prior === null) return null;
  // In turns: those that take long lie side by side.
  const partOf = (part: number): readonly string[] => lines.filter((_, index) => index % count === part);
  const targets = targetsOfLiterals(lines);
  const others = Array.from({ length: count - 1 }, (_, part) =>
    onThread<readonly (Needs | null)[]>({ wants: 'needs', directory, targets, lines: partOf(part + 1) }),
  );
  const own = Promise.resolve().then(() => needsOfLines(partOf(0), targets, known));
  const parts = await Promise.all([own, ...others]);
  return lines.map((_, index) => parts[index % count]?.[Math.floor(index / count)] ?? null);
}

async function write(
  found: FoundSignatures,
  folder: string,
  { windows, ...known }: Learned & Pick<PlanOptions, 'onProgress' | 'needs'>,
) {
  const { lines: signatures, triggerNames } = found;
  const plan = planGates(signatures, { programs: gateable(found), triggerNames, ...known });
  const supports: string[] = [];
  const put = async (name: string, content: string | Buffer): Promise<string> => {
    await writeFile(join(folder, name), content);
    return name;
  };
  for (const [index, { extension, content }] of found.supports.entries()) {
    supports.push(await put(`support-${index}${extension}`, content));
  }
  if (plan.handlers.length > 0) supports.push(await put('handlers.ldb', textOf(plan.handlers)));
  const shares: string[] = [];
  for (const [index, lines] of plan.shares.entries()) {
    shares.push(await put(`share-${index}${LOGICAL}`, textOf(lines.filter((line) => !isExtended(line)))));
    await put(`share-${index}${EXTENDED}`, textOf(lines.filter(isExtended)));
  }
  const lines = plan.gates.map(({ gate, shares }, index) => gateLine(gate, shares, index));
  const { literals } = plan;
  await put(GATES_FILE, textOf(lines.filter((_, index) => !literals.has(index))));
  await put(LITERALS_FILE, textOf(lines.filter((_, index) => literals.has(index))));
  const conditions = plan.conditions.map(({ share, sets }) => [share, ...sets.map((set) => set.join())].join(' '));
  await writeFile(join(folder, CONDITIONS_FILE), [...conditions, 'end\n'].join('\n'));
  return {
    literalCount: literals.size,
    shares,
    supports,
    /** Paths of databases, loaded where they lie. */
    databases: found.databases,
    programs: found.programs,
    mail: plan.mail,
    programShare: plan.programShare,
    /** Of the engine that sees every content. */
    singlePass: !found.hasOtherBodies && areFew(plan.ofOwnPass),
    /** Whether a signature may ask for the hash of an image. */
    imageHashes: found.imageHashes,
    facts: { gated: plan.gated, gates: plan.gates.length, kept: plan.kept, noisy: known.noisy.size, windows },
    keys: plan.gates.map(({ gate }) => keyOf(gate)),
  };
}

/** libclamav refuses an empty file, and an empty line of extended signatures. */
const textOf = (lines: readonly string[]): Buffer =>
  Buffer.from(['# Made by Sluice.', ...lines, ''].join('\n'), 'latin1');

/** The name says to the native layer which gate it is and, bit by bit, which shares must look whatever else hits. */
function gateLine(gate: Gate, shares: readonly number[], index: number): string {
  return `${GATE_PREFIX}${index}.${maskOf(shares).toString(16)}:${gate.target}:${gate.offset}:${gate.pattern}`;
}

const maskOf = (shares: readonly number[]): number => shares.reduce((bits, share) => bits + 2 ** share, 0);

class FoundSignatures {
  readonly lines: string[] = [];
  /** Bytecode programs that do nothing but find. */
  readonly finders: Triggered[] = [];
  /** Names of the files of all programs. */
  readonly programFiles: string[] = [];
  /** Names of the signatures that make programs run. */
  readonly triggerNames: string[] = [];
  /** Texts of lists of signatures that don't count. */
  readonly ignoreLists: string[] = [];
  readonly supports: { readonly extension: string; readonly content: Buffer }[] = [];
  readonly databases: string[] = [];
  readonly programs: string[] = [];
  imageHashes = false;
  /** Body signatures of other forms. */
  hasOtherBodies = false;
}

async function collect(directories: readonly string[]): Promise<FoundSignatures> {
  const found = new FoundSignatures();
  for (const directory of directories) {
    const paths = await databaseFiles(directory);
    refuseTwins(paths);
    for (const path of paths) {
      const extension = extensionOf(path);
      noteBodies(found, extension);
      if (CONTAINERS.has(extension)) await collectContainer(path, found);
      else if (BODIES.has(extension)) addLines(found, await readFile(path));
      else if (SUPPORTING.has(extension)) {
        if (IGNORING.has(extension)) found.ignoreLists.push(await readFile(path, 'latin1'));
        found.databases.push(path);
      }
    }
  }
  return found;
}

/**
 * Programs that may wait behind a gate. libclamav tells a program by its file's name, so that name must be the only one of its kind. A program
 * that a list of ignored signatures names is left out: the list holds for its signature's name. So is one for text: in an engine with such
 * a program all signatures know the size and the end of normalised text, and otherwise none does.
 */
function gateable({ finders, programFiles, ignoreLists }: FoundSignatures): Triggered[] {
  const counts = new Map<string, number>();
  for (const file of programFiles) counts.set(file, (counts.get(file) ?? 0) + 1);
  return finders.filter(
    ({ file, trigger }) =>
      counts.get(file) === 1 &&
      PROGRAM_NAME.test(file) &&
      !FOR_TEXT.test(trigger) &&
      !ignoreLists.some((list) => list.includes(namesOfTrigger(trigger).at(-1) ?? '')),
  );
}

/** As it is written, and as libclamav calls it: without a list of names in braces. */
function namesOfTrigger(trigger: string): readonly string[] {
  const name = trigger.slice(0, trigger.indexOf(';'));
  return [name, name.replace(/[.]?[{].*$/, '')];
}

/** libclamav takes the newer one of two. */
function refuseTwins(paths: readonly string[]): void {
  const names = paths.filter((path) => CONTAINERS.has(extensionOf(path))).map((path) => basename(path, extname(path)));
  const twin = names.find((name, index) => names.indexOf(name) !== index);
  if (twin !== undefined) throw new Error(`There is more than one container of ${twin}: remove the older one`);
}

async function collectContainer(path: string, found: FoundSignatures): Promise<void> {
  let hasPrograms = false;
  const wanted = new Set([...BODIES, PROGRAM, ...SUPPORTING]);
  for await (const { name, content } of membersOf(path, (one) => wanted.has(extensionOf(one)))) {
    const extension = extensionOf(name);
    noteBodies(found, extension);
    if (content === null) continue;
    if (extension === PROGRAM) {
      hasPrograms = true;
      found.programFiles.push(name);
      // Its trigger is a logical signature.
      noteImageHashes(found, content);
      const { trigger = null, onlyFinds = false } = readProgram(content) ?? {};
      if (trigger === null) continue;
      found.triggerNames.push(...namesOfTrigger(trigger));
      if (onlyFinds) found.finders.push({ file: name, trigger });
    } else if (BODIES.has(extension)) addLines(found, content);
    else {
      if (IGNORING.has(extension)) found.ignoreLists.push(content.toString('latin1'));
      found.supports.push({ extension, content });
    }
  }
  if (hasPrograms) found.programs.push(path);
}

function addLines(found: FoundSignatures, content: Buffer): void {
  noteImageHashes(found, content);
  for (const line of content.toString('latin1').split('\n')) {
    const text = line.replace(/\r+$/, '');
    if (text !== '' && !text.startsWith('#')) found.lines.push(text);
  }
}

function noteBodies(found: FoundSignatures, extension: string): void {
  found.hasOtherBodies ||= BODY_EXTENSIONS.has(extension) && extension !== EXTENDED;
}

/** Wherever it stands, also in what isn't understood. */
function noteImageHashes(found: FoundSignatures, content: Buffer): void {
  found.imageHashes ||= content.includes(IMAGE_HASH);
}

const extensionOf = (path: string): string => extname(path).toLowerCase();

/** Those of databases that are gone, and drafts whose process is; a process that loads reads and writes within minutes. */
async function removeOld(directory: string): Promise<void> {
  const folders: { readonly path: string; readonly modifiedMs: number }[] = [];
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const path = join(directory, entry.name);
    const modifiedMs = (await stat(path).catch(() => null))?.mtimeMs ?? 0;
    if (!entry.name.startsWith(DRAFT)) folders.push({ path, modifiedMs });
    else if (Date.now() - modifiedMs > DRAFT_MS_MAX) await rm(path, { recursive: true, force: true });
  }
  folders.sort((a, b) => b.modifiedMs - a.modifiedMs);
  for (const { path } of folders.slice(FOLDERS_KEPT)) await rm(path, { recursive: true, force: true });
}
