// Which service a command is about: found by what that one has left in its data folder, and by where its variables are kept. Only `serve` makes a store.
import {
  accessSync,
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { isClosedToOthers, isOursOrRoots } from '../engine/scratch.js';
import { codeOf, messageOfError } from '../error-text.js';
import type { Log } from '../log.js';
import { makeFolder, programDataDirectory } from '../paths.js';
import { Refusal } from './output.js';

/** Below the data folder: the variables of the service that runs there, or ran there last. */
const FILE_NAME = 'service.json';
/**
 * What a command needs to be about the same accounts, plans, nodes, signatures and server, and what plans and port are checked against. Secrets of others
 * (Stripe's) stay where they are.
 */
const KEPT = [
  ...['DATABASE_URL', 'DATABASE_USER', 'REDIS_URL', 'PLANS', 'BOOTSTRAP_PLAN'],
  ...['HOST', 'PORT', 'ADMIN_PORT', 'BASE_URL'],
  ...['ENGINE', 'SIGNATURES_DIR', 'SIGNATURES_MIRROR', 'SIGNATURES_URLS'],
];
export type Environment = Readonly<Record<string, string | undefined>>;

const ServiceFile = z.record(z.string(), z.string());

/** Where the unit of `deploy/` has its variables, and its data. */
const ENVIRONMENT_FILE = '/etc/sluice.env';
const UNIT_DIRECTORY = '/var/lib/sluice';

export interface ServicePlaces {
  /** `--data-dir`; null: it wasn't given. */
  readonly dataDirectory: string | null;
  readonly environmentFile?: string;
  /** Looked at when nothing else names one. */
  readonly directories?: readonly string[];
}

/** The variables for a command: its own, and those of the service that was found. Throws a Refusal that says where it looked. */
export function findService(env: Environment, places: ServicePlaces): Environment {
  const { dataDirectory, environmentFile = ENVIRONMENT_FILE } = places;
  const looked: string[] = [];
  if (dataDirectory !== null) {
    const { DATABASE_URL: _, ...rest } = env;
    return inFolder(resolve(dataDirectory), rest, looked) ?? notFound(looked);
  }
  if (isSet(env['DATABASE_URL'])) return env;
  if (isSet(env['DATA_DIR'])) return inFolder(resolve(env['DATA_DIR']), env, looked) ?? notFound(looked);
  const both = { ...readEnvironmentFile(environmentFile, looked), ...env };
  if (isSet(both['DATABASE_URL'])) return both;
  const own = isSet(both['DATA_DIR']) ? [resolve(both['DATA_DIR'])] : [];
  for (const folder of new Set([
    ...own,
    ...(places.directories ?? [resolve('data'), programDataDirectory, UNIT_DIRECTORY]),
  ])) {
    if (!own.includes(folder) && isForeign(folder)) looked.push(`${folder}: it belongs to another user`);
    else {
      const found = inFolder(folder, both, looked);
      if (found !== null) return found;
    }
  }
  return notFound(looked);
}

/** What lies in it decides what is done for its service. A folder of another user counts only where nobody but us and root can have put it there. */
function isForeign(folder: string): boolean {
  const found = statSync(folder, { throwIfNoEntry: false });
  return found !== undefined && !isOursOrRoots(found) && !isClosedToOthers(dirname(folder));
}

/** For commands that work without a service as well: null where none is found. */
export function findServiceIfAny(env: Environment, places: Partial<ServicePlaces> = {}): Environment | null {
  try {
    return findService(env, { dataDirectory: null, ...places });
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

/** Its signatures are looked for where the program is, not where it is started: what lies there may be what is to be scanned. */
export function findServiceOfScan(env: Environment): Environment {
  return byTheProgram(findServiceIfAny(env, { directories: [programDataDirectory, UNIT_DIRECTORY] }) ?? env);
}

/** Where nothing names a data folder it is the program's, wherever a command is started: what one command fetches another one finds. */
export function byTheProgram(env: Environment): Environment {
  return isSet(env['DATA_DIR']) ? env : { ...env, DATA_DIR: programDataDirectory };
}

const isSet = (value: string | undefined): value is string => value !== undefined && value !== '';

function notFound(looked: readonly string[]): never {
  throw new Refusal(
    `There is no store of a service here, and only \`sluice serve\` makes one. Looked in:\n  ${looked.join('\n  ')}\n` +
      'Start the service first, or name its folder: --data-dir DIR (DATA_DIR and DATABASE_URL do the same)',
  );
}

/** Null: no service has its store there, and `looked` has why. */
function inFolder(folder: string, env: Environment, looked: string[]): Environment | null {
  try {
    const left = readServiceFile(folder);
    if (isSet(left['DATABASE_URL']) || hasDatabase(folder)) return { ...left, ...env, DATA_DIR: folder };
    looked.push(`${folder}: ${existsSync(folder) ? 'it has no database' : 'there is no such folder'}`);
  } catch (error) {
    const isClosed = ['EACCES', 'EPERM'].includes(codeOf(error) ?? '');
    looked.push(`${folder}: ${isClosed ? 'only its user and root can read it' : messageOfError(error)}`);
  }
  return null;
}

/** A folder of a version of PostgreSQL: it is there when the database is whole. */
function hasDatabase(folder: string): boolean {
  const root = join(folder, 'postgres');
  try {
    accessSync(root, constants.R_OK | constants.X_OK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
  return readdirSync(root).some((name) => /^(\d+|PG_VERSION)$/.test(name));
}

function readServiceFile(folder: string): Environment {
  try {
    return ServiceFile.parse(JSON.parse(readFileSync(join(folder, FILE_NAME), 'utf8')));
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return {};
    throw error;
  }
}

function readEnvironmentFile(path: string, looked: string[]): Environment {
  try {
    const variables = parseEnv(readFileSync(path, 'utf8'));
    if (!isSet(variables['DATA_DIR'])) looked.push(`${path}: it has no DATA_DIR and no DATABASE_URL`);
    return variables;
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT') looked.push(`${path}: there is no such file`);
    else looked.push(`${path}: ${code === 'EACCES' ? 'only root can read it' : messageOfError(error)}`);
    return {};
  }
}

/** Leaves behind where the service has its store. Everybody who may read the data folder may know it. */
export function leaveServiceFile(dataDirectory: string, env: Environment, log: Pick<Log, 'warn'>): void {
  const path = join(dataDirectory, FILE_NAME);
  const variables = Object.fromEntries(KEPT.flatMap((name) => (isSet(env[name]) ? [[name, env[name]]] : [])));
  try {
    makeFolder(dataDirectory);
    // A reader sees the old one or the new one; the name is this process's, and nobody else reads what is in it.
    const unfinished = `${path}.${process.pid}`;
    writeFileSync(unfinished, `${JSON.stringify(variables)}\n`, { mode: 0o600 });
    renameSync(unfinished, path);
  } catch (error) {
    log.warn({ path, reason: messageOfError(error) }, 'commands will not find this service by its data folder');
  }
}
