// Folders that belong to one process: named after it, so that others know when it is gone, and remove them then.
import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, lutimesSync, readdirSync, readFileSync, readlinkSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { isOurs, removeOwnFolder } from '../owned-folder.js';

/** In a container the next process has the pid of the last one: what tells them apart is when they started. */
const STARTED = Math.floor(performance.timeOrigin);
/** Where our pids count: in another container, and on another machine, they are those of others. */
const NAMESPACE = pidNamespace();
/** Behind the prefix; what follows it is the folder's own. */
const OWNER = /^(\d+)-(\d+)-(?:([0-9a-f]{12})-)?/;
/** How often an owner shows that it lives, to those who can't see its process. */
export const SIGN_OF_LIFE_MS = 60_000;
/** Long enough for an owner that is held up; until then its folder takes room. */
const ABANDONED_MS = 15 * SIGN_OF_LIFE_MS;
/** Of folders of others: the last sign, and when we saw it first. One entry for each such folder there was. */
const signsOfLife = new Map<string, { readonly mtimeMs: number; readonly seenMs: number }>();

/** The beginning of a name that is ours. */
export function ownedName(prefix: string): string {
  return `${prefix}${process.pid}-${STARTED}-${NAMESPACE}-`;
}

/** To be called every SIGN_OF_LIFE_MS. */
export function showLife(directory: string): void {
  try {
    const now = new Date();
    lutimesSync(directory, now, now);
  } catch {
    // There is none yet, or it is on a disk that fails, which those say who use it.
  }
}

/**
 * Returns what couldn't be removed: that must not keep the service from starting. Anybody may put a folder or a link of such a
 * name there: what isn't ours is left alone.
 */
export function removeOrphans(parent: string, prefix: string): string[] {
  const warnings: string[] = [];
  for (const name of namesIn(parent, warnings)) {
    if (!name.startsWith(prefix)) continue;
    const path = join(parent, name);
    const facts = factsOf(path);
    if (facts === null || !isOrphan(path, name.slice(prefix.length), facts)) continue;
    try {
      removeOwnFolder(parent, name);
    } catch (error) {
      warnings.push(`the leftover folder ${name} cannot be removed: ${reasonOf(error)}`);
    }
  }
  return warnings;
}

/** Without a descriptor to look with, the next look will do. */
function namesIn(parent: string, warnings: string[]): string[] {
  try {
    return readdirSync(parent);
  } catch (error) {
    warnings.push(`leftover folders cannot be looked for in ${parent}: ${reasonOf(error)}`);
    return [];
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Null: it has just gone, or it is no folder of ours. */
function factsOf(path: string): Stats | null {
  try {
    const facts = lstatSync(path);
    if (facts.isDirectory() && isOurs(facts)) return facts;
  } catch {
    // It has just gone.
  }
  signsOfLife.delete(path);
  return null;
}

function isOrphan(path: string, name: string, facts: Stats): boolean {
  const [, pid, started, namespace] = OWNER.exec(name) ?? [];
  if (pid === undefined) return false;
  if (namespace !== NAMESPACE) return isAbandoned(path, facts);
  return Number(pid) === process.pid ? Number(started) !== STARTED : !isAlive(Number(pid));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it lives and belongs to somebody else.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/**
 * By our own clock, which stands still with the machine: neither clocks that differ nor a machine that slept make somebody's folder
 * look old.
 */
function isAbandoned(path: string, { mtimeMs }: Stats): boolean {
  const seen = signsOfLife.get(path);
  if (seen?.mtimeMs !== mtimeMs) {
    signsOfLife.set(path, { mtimeMs, seenMs: performance.now() });
    return false;
  }
  if (performance.now() - seen.seenMs < ABANDONED_MS) return false;
  signsOfLife.delete(path);
  return true;
}

/**
 * Of this boot and this PID namespace; the number of one that is gone is given to another, but no two that live share it. Where
 * it can't be told, no pid counts but our own.
 */
function pidNamespace(): string {
  try {
    const facts = [readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'), readlinkSync('/proc/self/ns/pid')];
    return createHash('sha256').update(facts.join(' ')).digest('hex').slice(0, 12);
  } catch {
    return randomBytes(6).toString('hex');
  }
}
