// `sluice signatures status`, `check` and `tune`: what lies in the signature folders, how old it is, what a server here has loaded of it, whether it loads, and what gates must not be made of.
import { readFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { z } from 'zod';
import { type Config, reachableUrl, readConfig } from '../config/config.js';
import { dailyBuiltAt, databaseFiles, describeDatabases } from '../engine/databases.js';
import type { Engine } from '../engine/engine.js';
import {
  createStandings,
  type FileStatus,
  folderStatus,
  type GateFacts,
  gateStatus,
  MEANINGS,
  presentFolders,
  type Standing,
  tune,
} from '../engine/folders.js';
import { loadSignatures, type SignatureOptions } from '../engine/signatures.js';
import { messageOfError } from '../error-text.js';
import { askServer } from '../http/fetch.js';
import { wireTime } from '../wire-text.js';
import { counted, EXIT_CLEAN, EXIT_FAILED, escapeText } from './output.js';
import { createProgress, type Progress } from './progress.js';
import { walk } from './scan-files.js';
import { giveToOwner } from './service-owner.js';
import { byTheProgram, findServiceIfAny } from './service-place.js';

/** Of the data folder. */
const GATES = 'gates';
const SERVER_TIMEOUT_MS = 2_000;
const DAY_S = 24 * 60 * 60;

export async function signaturesStatus({ json }: { readonly json: boolean }, env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(findServiceIfAny(env) ?? byTheProgram(env));
  const directories = presentFolders(config.signatureFolders);
  const folders = await Promise.all(directories.map(statusOf));
  const isWhole = folders.every(({ problem }) => problem === null);
  const described = isWhole
    ? await describeDatabases((await Promise.all(directories.map(databaseFiles))).flat())
    : null;
  const gates = isWhole && config.hasGates ? await gateStatus(directories, join(config.dataDirectory, GATES)) : null;
  const status = {
    folders,
    version: described?.signatureVersion ?? null,
    gates,
    server: await servedSignatures(config),
  };
  const daily = described === null ? null : dailyBuiltAt(described.files);
  const standing = createStandings(config.signatureFolders, Date.now)({ epoch: 1, dailyBuiltAt: daily });
  process.stdout.write(
    json ? `${JSON.stringify({ ...status, standing }, null, 2)}\n` : textOf(status, daily, standing),
  );
  return isWhole ? EXIT_CLEAN : EXIT_FAILED;
}

/** `problem` null: it can be read and has databases. */
async function statusOf(folder: string) {
  try {
    const files = await folderStatus(folder);
    const problem = files.length === 0 ? 'there is no signature database in it' : null;
    return { folder, files: files.map(fileLine), problem };
  } catch (error) {
    return { folder, files: [], problem: messageOfError(error) };
  }
}

function fileLine({ path, version, signatureCount, builtAt, problems }: FileStatus) {
  return {
    file: basename(path),
    version,
    signatures: signatureCount,
    /** Null: the file doesn't say it. */
    built: builtAt === null ? null : wireTime(builtAt * 1000),
    ageDays: builtAt === null ? null : Math.max(0, Math.floor((Date.now() / 1000 - builtAt) / DAY_S)),
    problems,
  };
}

const versionAnswer = z.object({ signatures: z.object({ version: z.string(), count: z.number() }).nullable() });

/** Null when no server answers at the configured address, or another program does. */
async function servedSignatures(config: Config): Promise<z.infer<typeof versionAnswer>['signatures'] | null> {
  try {
    const url = new URL('/version', reachableUrl({ ...config, baseUrl: null }, config.port));
    return versionAnswer.parse(await askServer(url, SERVER_TIMEOUT_MS)).signatures;
  } catch {
    return null;
  }
}

interface Status {
  readonly folders: readonly Awaited<ReturnType<typeof statusOf>>[];
  readonly version: string | null;
  /** Null: ENGINE_GATES is off, or none have been made of these signatures yet. */
  readonly gates: GateFacts | null;
  readonly server: Awaited<ReturnType<typeof servedSignatures>>;
}

function textOf({ folders, version, gates, server }: Status, dailyAt: number | null, standing: Standing): string {
  const lines: string[] = [];
  for (const { folder, files, problem } of folders) {
    lines.push(escapeText(folder));
    if (problem !== null) lines.push(`  ${problem}`);
    for (const one of files) {
      const what = one.version === null ? '' : `version ${one.version}, `;
      const age = one.built === null ? '' : `, built ${one.built}, ${counted(one.ageDays ?? 0, 'day')} old`;
      lines.push(`  ${escapeText(one.file)}: ${what}${counted(one.signatures, 'signature')}${age}`);
      for (const message of one.problems) lines.push(`    ${escapeText(message)}`);
    }
  }
  if (version !== null) lines.push(`Together version ${version}`);
  if (standing === 'starter') {
    lines.push(`They are ${MEANINGS.starter}: \`sluice signatures update\` fetches ClamAV's`);
  }
  if (dailyAt !== null) {
    const days = (Date.now() / 1000 - dailyAt) / DAY_S;
    const todo = days < 1 ? '' : ': `sluice signatures update` fetches a newer one';
    lines.push(`The newest daily database is ${days.toFixed(1)} days old${todo}`);
  }
  if (gates !== null) lines.push(...gateLines(gates));
  if (server === null) lines.push('No server with signatures answers here');
  else if (server.version === version) lines.push(`The server has loaded them: ${counted(server.count, 'signature')}`);
  else lines.push(`The server has loaded others: version ${server.version}, ${counted(server.count, 'signature')}`);
  return `${lines.join('\n')}\n`;
}

function gateLines({ gated, gates, kept, noisy, windows }: GateFacts): string[] {
  const reasons = Object.entries(kept).map(([reason, count]) => `${count} (${reason})`);
  const others = reasons.length === 0 ? 'none' : reasons.join(', ');
  return [
    `${gated} signatures are behind ${gates} gates, ${noisy} gates were given up as noisy`,
    `${windows} windows of clean files were learned`,
    `Signatures that every content is asked about: ${others}`,
  ];
}

/** For the two scans of the self-test. */
const SELF_TEST_TIMEOUT_MS = 60_000;

export async function signaturesCheck(folders: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(findServiceIfAny(env) ?? byTheProgram(env));
  const directories =
    folders.length > 0 ? folders.map((folder) => resolve(folder)) : presentFolders(config.signatureFolders);
  const tried = await tryToLoad(directories, { engine: config.engine, mayStandIn: true });
  if (tried.kind === 'failed') {
    process.stderr.write(`sluice: ${escapeText(tried.message)}\n`);
    return EXIT_FAILED;
  }
  process.stdout.write(`${describeLoad(tried.engine)}\n`);
  // The warnings have said what is wrong; here it decides.
  const { rules, standsInFor } = tried.engine;
  return standsInFor === null && (rules?.refusedFiles ?? 0) === 0 ? EXIT_CLEAN : EXIT_FAILED;
}

type Tried =
  | { readonly kind: 'loaded'; readonly engine: Engine }
  | { readonly kind: 'failed'; readonly message: string };

/** `mayStandIn` false: it fails where another engine would stand in. */
type Wanted = Required<Pick<SignatureOptions, 'engine' | 'mayStandIn'>>;

/** Shows the progress and passes the engine's complaints on. */
export async function tryToLoad(directories: readonly string[], wanted: Wanted): Promise<Tried> {
  const progress = createProgress();
  const signatures = loadSignatures({
    directories,
    ...wanted,
    scanTimeoutMs: SELF_TEST_TIMEOUT_MS,
    onProgress: progress.loading,
    onEvent(event) {
      if (event.kind !== 'warning') return;
      progress.hide();
      process.stderr.write(`sluice: ${event.message}\n`);
    },
  });
  try {
    return { kind: 'loaded', engine: await signatures.ready() };
  } catch (error) {
    return { kind: 'failed', message: messageOfError(error) };
  } finally {
    progress.stop();
    await signatures.stop();
  }
}

export function describeLoad(engine: Engine): string {
  const { signatureVersion, signaturesBuiltAt, loadMillis, contents, standsInFor } = engine;
  const built = signaturesBuiltAt === null ? '' : `, built ${wireTime(signaturesBuiltAt * 1000)}`;
  const facts = `version ${signatureVersion}${built}, loaded in ${(loadMillis / 1000).toFixed(1)} s, self-test passed`;
  return `${standsInFor === null ? 'OK' : `Without ${standsInFor.name}`}: ${contents}, ${facts}`;
}

const FILE_BYTES_MAX = 50 * 1024 * 1024;
const LISTING = 'Listing what gates can be made of';

export async function signaturesTune(paths: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(findServiceIfAny(env) ?? byTheProgram(env));
  const files = await filesIn(paths);
  if (files.length === 0) {
    process.stderr.write('sluice: there is no file to learn from\n');
    return EXIT_FAILED;
  }
  const progress = createProgress();
  progress.doing(LISTING, 0);
  try {
    const { contents, learned, facts } = await tune({
      directories: presentFolders(config.signatureFolders),
      gatesDirectory: join(config.dataDirectory, GATES),
      contents: () => contentsOf(files, progress),
      onListing: (fraction) => progress.doing(LISTING, fraction),
      onMaking: () => progress.doing('Making gates', null),
    });
    progress.hide();
    const now = `${facts.gated} signatures are behind ${facts.gates} gates now`;
    process.stdout.write(`${contents} files, ${learned} windows learned: ${now}\n`);
    return EXIT_CLEAN;
  } catch (error) {
    process.stderr.write(`sluice: ${escapeText(messageOfError(error))}\n`);
    return EXIT_FAILED;
  } finally {
    progress.stop();
    giveToOwner(config.dataDirectory, GATES);
  }
}

async function filesIn(paths: readonly string[]): Promise<Buffer[]> {
  const files: Buffer[] = [];
  for await (const entry of walk(paths)) {
    if (entry.kind === 'file' && entry.sizeBytes > 0 && entry.sizeBytes <= FILE_BYTES_MAX) files.push(entry.path);
    if (entry.kind === 'failed')
      process.stderr.write(`sluice: ${escapeText(entry.path.toString())}: ${entry.reason}\n`);
  }
  return files;
}

/** A file that has gone, or can't be read, teaches nothing. */
async function* contentsOf(paths: readonly Buffer[], progress: Progress): AsyncIterable<Uint8Array> {
  progress.total(paths.length);
  for (const [index, path] of paths.entries()) {
    progress.scanned(index);
    const content = await readFile(path).catch(() => Buffer.alloc(0));
    if (content.length > 0) yield content;
  }
  progress.scanned(paths.length);
}
