// The only loader of the native addon: it checks what goes in and types what comes out. The engine in it belongs to the process.
import { access, constants, readFile, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename } from 'node:path';
import { codeOf, messageOfError } from '../../error-text.js';
import { addonPath, marksDirectory } from '../../paths.js';
import {
  contentDigest,
  type DatabaseFacts,
  databaseFiles,
  describeDatabases,
  expectedSignatures,
  fingerprint,
  type SelfTest,
  selfTestFor,
} from '../databases.js';
import type { RawAnswer } from '../verdict.js';

/** Bounds of one scan; the last is one of all scans. Over any of them the answer has a `Heuristics.Limits.Exceeded.*` alert. */
export interface EngineLimits {
  /** Bytes over all layers of one content, unpacked and normalised ones included. */
  readonly maxScanSizeBytes: number;
  /** Bytes of one layer. Must be above the scan size: a ZIP member over this limit is cut without an alert. */
  readonly maxFileSizeBytes: number;
  /** Layers of one content. */
  readonly maxFiles: number;
  /** Layers inside each other. */
  readonly maxRecursion: number;
  readonly maxScanTimeMs: number;
  /** Bytes in the temporary folder, of all scans together. Over it, scans that unpack more end with an error. */
  readonly maxTemporaryBytes: number;
}

/** What the kernel denies to a scan thread. */
export interface Confinement {
  /** System calls that scanning doesn't need: network, programs, other processes. */
  readonly seccomp: boolean;
  /** Files outside its folders: the version of the kernel's Landlock; null: it has none. */
  readonly landlock: number | null;
}

export interface LoadOptions {
  /** Folders with databases, loaded into one engine in this order. */
  readonly directories: readonly string[];
  /** Where libclamav unpacks; must exist. A scan makes and removes a folder there. */
  readonly temporaryDirectory: string;
  readonly limits: EngineLimits;
  /** Whether every byte of the databases and the libraries is read once more, for a digest of them. */
  readonly wantsDigest?: boolean;
  /** Default: none, one engine looks at everything. */
  readonly gates?: GateFiles | null;
  /** Whether all signatures are matched in one pass over a content; default: in two, as libclamav does by itself. */
  readonly singlePass?: boolean;
  /** Whether libclamav hashes images by what they look like, as it does by itself; default: it does. Without a signature of such a hash no verdict needs it. */
  readonly imageHashes?: boolean;
  /** The fingerprint of the databases that the other options were made of; default: of none. */
  readonly madeOf?: string | null;
  /** Hashes of windows (gates/prior.ts): it is counted in how many contents each lies. Default: none. For engines without gates. */
  readonly windows?: Float64Array;
}

/** Files of gates and of the signatures behind them (clamav/gates/). */
export interface GateFiles {
  /** Body signatures; each is named after its number and the shares that must look when it hits. */
  readonly gates: string;
  /** Those of them that are plain bytes (native/literals.h), and how many they are. */
  readonly literals: string;
  readonly literalCount: number;
  /** Of both files. */
  readonly gateCount: number;
  /** Which shares look only where a gate of each of several sets has hit (native/gates.h). */
  readonly conditions: string;
  /** Files of logical signatures, with one of extended ones beside each (.ndb): each share has an engine of its own, which takes second looks. */
  readonly shares: readonly string[];
  /** What each of these engines needs beside its signatures. */
  readonly supports: readonly string[];
  /** Databases with bytecode programs. These engines load the programs of them. */
  readonly programs: readonly string[];
  /** The share that is asked about layers inside of mails; -1: none. */
  readonly mailShare: number;
  /** Hexadecimal: the bytes that such layers begin with; without them it is about all layers. */
  readonly mailBeginnings: readonly string[];
  /** The share that has bytecode programs, by their files' names; -1: none. */
  readonly programShare: number;
}

/** Since the engine was built. */
export interface GateStatistics {
  readonly scans: number;
  /** Scans in which a gate hit, or a layer inside of a mail was met. */
  readonly secondLooks: number;
  /** Engines that have taken them: one for each share that was hit. */
  readonly lookers: number;
  /** Those in which no signature behind the gates matched. */
  readonly inVain: number;
  /** Numbers of gates and how often they hit in vain. */
  readonly noisy: readonly (readonly [gate: number, times: number])[];
}

export interface EngineInfo {
  /** Which engine of this process it is; every one that serves has a higher epoch than those before it. */
  readonly epoch: number;
  readonly engineVersion: string;
  readonly signatureCount: number;
  readonly loadMillis: number;
  /** What libclamav complained about while it loaded, oldest first. */
  readonly warnings: readonly string[];
}

/** A native engine that is built and tried, and doesn't serve yet. */
export interface PreparedEngine extends Omit<EngineInfo, 'epoch'>, DatabaseFacts {
  readonly nativeEpoch: number;
  /** Puts it in the place of the one that serves. Once. */
  serve(): void;
  /** SHA-256 over all bytes of the databases, and of the libraries, where it was wanted and could be had. */
  readonly digest: string | null;
}

export interface EngineAnswer extends RawAnswer {
  readonly epoch: number;
  /** The number of what libclamav says the content is (`contentType`). */
  readonly type: number;
  /** When engines looked again at what gates had hit, since the scan began; both 0: none did. */
  readonly secondLookBeganMs: number;
  readonly secondLookEndedMs: number;
}

const MIB = 1024 * 1024;

export const defaultEngineLimits: EngineLimits = {
  // Ten megabytes of ordinary documents and archives unpack to less. A thread may put this much into the temporary folder.
  maxScanSizeBytes: 200 * MIB,
  // The most libclamav can map, less a margin.
  maxFileSizeBytes: 2000 * MIB,
  maxFiles: 10_000,
  maxRecursion: 17,
  maxScanTimeMs: 25_000,
  // As much as ten scans may unpack. The configuration of a service sets a bound that grows with its threads.
  maxTemporaryBytes: 2000 * MIB,
};

/** No engine can be made of these databases, or on this machine. The message is for the operator. */
export class EngineLoadError extends Error {
  override readonly name = 'EngineLoadError';
}

interface NativeLoadOptions extends Required<Omit<LoadOptions, 'wantsDigest' | 'madeOf'>>, SelfTest {
  readonly marksDirectory: string;
  readonly expectedSignatures: number;
}

interface NativeAddon {
  /** Builds and tries an engine, which then waits for `serveEngine` or `discardEngine`. */
  loadEngine(options: NativeLoadOptions, onProgress?: (fraction: number) => void): Promise<EngineInfo>;
  serveEngine(epoch: number): boolean;
  discardEngine(epoch: number): void;
  engineInfo(): EngineInfo | null;
  gateStatistics(): GateStatistics | null;
  countWindows(epoch: number, windows: Float64Array): boolean;
  windowCounts(): Float64Array | null;
  confineThread(readable: readonly string[]): Confinement;
  tryConfinement(): Confinement;
  scanBuffer(content: Uint8Array): EngineAnswer;
  scanPlain(content: Uint8Array): EngineAnswer | number;
  typeName(type: number): string | null;
}

let loadedAddon: NativeAddon | null = null;

/** At the first call and not at import: a service without the addon can then say what is missing. */
function addon(): NativeAddon {
  if (loadedAddon === null) {
    try {
      const exported: NativeAddon = createRequire(import.meta.url)(addonPath);
      loadedAddon = exported;
    } catch (error) {
      // Node looks with the rights that this process has; access(2) would go by those of its user.
      if (codeOf(error) === 'MODULE_NOT_FOUND') {
        throw new EngineLoadError(`The native engine is not built (${addonPath} is missing): run "npm run build"`);
      }
      // It was built on another machine, or libclamav was removed since.
      throw new EngineLoadError(`The native engine cannot be loaded: ${messageOfError(error)}`, { cause: error });
    }
  }
  return loadedAddon;
}

/**
 * Builds an engine on a native thread, beside the one that serves, and tries it. Rejects with an EngineLoadError when any
 * folder can't be loaded whole, changes meanwhile, or makes an engine that fails the self-test; with a TypeError for
 * wrong arguments. The progress goes from 0 to 1, and each number is higher than the last one.
 */
export async function prepareEngine(
  options: LoadOptions,
  onProgress?: (fraction: number) => void,
): Promise<PreparedEngine> {
  // 1. Arguments
  checkArguments(options, onProgress);
  const { directories, temporaryDirectory, limits, wantsDigest = false, madeOf = null } = options;
  const { gates = null, singlePass = false, imageHashes = true, windows = new Float64Array() } = options;
  const native = addon();

  // 2. Folders
  for (const directory of directories) await filesOf(directory);
  await checkTemporaryDirectory(temporaryDirectory);

  try {
    // 3. What the files are
    const before = await fingerprint(directories);
    const paths: string[] = [];
    for (const directory of directories) paths.push(...(await filesOf(directory)));
    if (madeOf !== null && madeOf !== before) throw changed(directories);

    // 4. The engine, and beside it what is read for ourselves
    const known = { expectedSignatures: await expectedSignatures(paths), ...(await selfTestFor(paths)) };
    const loading = native.loadEngine(
      { directories, temporaryDirectory, limits, marksDirectory, gates, singlePass, imageHashes, windows, ...known },
      onProgress,
    );
    const reading = Promise.all([describeDatabases(paths), wantsDigest ? digestOf(paths) : null]);
    // What can't be read can't be loaded either, and the message of the load is better.
    reading.catch(() => undefined);
    const { epoch: nativeEpoch, ...facts } = await loading;
    try {
      const [described, digest] = await reading;
      // 5. Still the same files: otherwise it would be unknown what the engine was made of
      if ((await fingerprint(directories).catch(() => null)) !== before) throw changed(directories);
      return { ...facts, ...described, nativeEpoch, digest, serve: () => takePlace(native, nativeEpoch) };
    } catch (error) {
      native.discardEngine(nativeEpoch);
      throw error;
    }
  } catch (error) {
    throw new EngineLoadError(messageOfError(error), { cause: error });
  }
}

/** Of the databases and of what scans with them; null: not all of it can be had. */
async function digestOf(paths: readonly string[]): Promise<string | null> {
  const databases = await contentDigest(paths).catch(() => null);
  const libraries = databases === null ? null : await scannerDigest().catch(() => null);
  return libraries === null ? null : `${databases}${libraries}`;
}

function takePlace(native: NativeAddon, epoch: number): void {
  if (!native.serveEngine(epoch)) throw new Error('A newer engine serves already');
}

function changed(directories: readonly string[]): Error {
  return new Error(`The signatures changed while they were read (${directories.join(', ')})`);
}

/** Of the engine that serves; null: it has no gates, or no engine serves. */
export const gateStatistics = (): GateStatistics | null => addon().gateStatistics();

/** From now on, of contents that the engine looks at twice for nothing. False: another one serves, or it has no gates. `windows`: hashes. */
export function countWindows(nativeEpoch: number, windows: Float64Array): boolean {
  return addon().countWindows(nativeEpoch, windows);
}

/** Hashes of the windows that were met and in how many contents, in turns, by the engine that serves; null: it counts none. */
export const windowCounts = (): Float64Array | null => addon().windowCounts();

/** The engine that serves; null before the first. The same in every thread. */
export const engineInfo = (): EngineInfo | null => addon().engineInfo();

/**
 * Scans on the calling thread, in place: the content must not be written to meanwhile. Throws a TypeError for anything
 * but a Uint8Array with content, an Error when no engine is loaded. The codes are those of clamav.h.
 */
export const scanBuffer = (content: Uint8Array): EngineAnswer => addon().scanBuffer(content);

/** As `scanBuffer`. Where the content is plainly clean and no gate has hit, the answer is the engine's epoch and the content's type in one number. */
export const scanPlain = (content: Uint8Array): EngineAnswer | number => addon().scanPlain(content);

/** How many types there are at most, with "none" (native/content-types.h). */
export const TYPES = 256;

/** Of a plain answer. */
export const epochOf = (plain: number): number => Math.floor(plain / TYPES);

export const typeOf = (plain: number): number => plain % TYPES;

const typeNames: (string | null)[] = [null];

/** libclamav's name of a type, such as `CL_TYPE_PDF`; null: it hasn't said one. The same text each time. */
export function contentType(type: number): string | null {
  const known = typeNames[type];
  if (known !== undefined) return known;
  const name = addon().typeName(type);
  typeNames[type] = name;
  return name;
}

/**
 * Confines the calling thread for good (native/sandbox.h): of files it keeps the engine's temporary folder, and may read
 * those in the folders. Modules that it hasn't imported yet can't be imported any more.
 */
export function confineThread(readable: readonly string[]): Confinement {
  if (!Array.isArray(readable) || !readable.every(isPath)) throw new TypeError('readable must be a list of folders');
  return addon().confineThread(readable);
}

/** What `confineThread` can deny on this machine. */
export const tryConfinement = (): Confinement => addon().tryConfinement();

function checkArguments(options: LoadOptions, onProgress: unknown): void {
  if (typeof options !== 'object' || options === null) throw new TypeError('options must be an object');
  const { directories, temporaryDirectory, limits } = options;
  if (!Array.isArray(directories) || directories.length === 0 || !directories.every(isPath)) {
    throw new TypeError('directories must be a list of folders');
  }
  if (!isPath(temporaryDirectory)) throw new TypeError('temporaryDirectory must be a folder');
  checkLimits(limits);
  if (onProgress !== undefined && typeof onProgress !== 'function') {
    throw new TypeError('onProgress must be a function');
  }
}

function checkLimits(limits: EngineLimits): void {
  if (typeof limits !== 'object' || limits === null) throw new TypeError('limits must be an object');
  for (const key of Object.keys(defaultEngineLimits)) {
    const value: unknown = Reflect.get(limits, key);
    // Zero would switch the limit off in libclamav.
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1) {
      throw new TypeError(`limits.${key} must be a whole number above zero`);
    }
  }
  if (limits.maxFileSizeBytes <= limits.maxScanSizeBytes) {
    throw new TypeError('limits.maxFileSizeBytes must be above limits.maxScanSizeBytes');
  }
}

const isPath = (value: unknown): value is string => typeof value === 'string' && value !== '' && !value.includes('\0');

async function filesOf(directory: string): Promise<string[]> {
  let paths: string[];
  try {
    paths = await databaseFiles(directory);
  } catch (error) {
    throw new EngineLoadError(`Cannot read the signature folder ${directory}: ${messageOfError(error)}`, {
      cause: error,
    });
  }
  if (paths.length === 0) throw new EngineLoadError(`There is no signature database in ${directory}`);
  return paths;
}

async function checkTemporaryDirectory(directory: string): Promise<void> {
  try {
    if (!(await stat(directory)).isDirectory()) throw new Error('it is not a folder');
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new EngineLoadError(`Cannot use the temporary folder ${directory}: ${messageOfError(error)}`, {
      cause: error,
    });
  }
}

/** libclamav, the library that unpacks RAR for it, and those that it parses and unpacks with. */
const SCANNING = /^lib(clam|xml2|json-c|pcre2|z|zstd|bz2|lz4|lzma|mspack|tfm|iconv)[\w-]*\.so/;

/**
 * SHA-256 over what verdicts depend on beside the signatures, in hex: our addon, its marks, and shared libraries, which may differ from machine to machine. Null: a library was replaced on disk since it was loaded. To be called after the
 * addon was loaded, which loads the libraries.
 */
export async function scannerDigest(): Promise<string | null> {
  const paths = new Set<string>();
  for (const line of (await readFile('/proc/self/maps', 'utf8')).split('\n')) {
    const path = /\s(\/.*)$/.exec(line)?.[1];
    if (path !== undefined && SCANNING.test(basename(path))) paths.add(path);
  }
  if ([...paths].some((path) => path.endsWith(' (deleted)'))) return null;
  const marks = await databaseFiles(marksDirectory);
  const libraries = [...paths].sort((a, b) => (basename(a) < basename(b) ? -1 : 1));
  return await contentDigest([addonPath, ...marks, ...libraries]);
}
