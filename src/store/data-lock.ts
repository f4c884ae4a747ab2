// The lock on a data directory: one live process at a time; a crashed owner's lock is taken over, its socket folder removed.
import { linkSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { codeOf, StoreError } from './store-error.js';

/** Folders under the OS's temporary one that may be removed on behalf of a crashed owner. */
export const SOCKET_FOLDER_PREFIX = 'sluice-';
export const SOCKET_NAME = '.s.PGSQL.5432';

const ownerShape = z.object({
  pid: z.number().int().positive(),
  /** Boot and clock ticks since it: a process id is used again, this pair is not. Null where there is no /proc. */
  startedAt: z.string().nullable(),
  socketDirectory: z.string(),
});
type Owner = z.infer<typeof ownerShape>;

/** Starters that may get in each other's way before this one gives up. */
const ATTEMPTS = 10;

/** Returns the release, or throws a StoreError that names the process that has the directory. */
export function lockDataDirectory(dataDirectory: string, socketDirectory: string): () => void {
  const path = join(dataDirectory, 'lock');
  const mine = `${path}.${process.pid}.${basename(socketDirectory)}`;
  const owner: Owner = { pid: process.pid, startedAt: startOf(process.pid), socketDirectory };
  writeFileSync(mine, `${JSON.stringify(owner)}\n`, { mode: 0o600 });
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      // Linked, not written in place: a lock is seen whole or not at all.
      if (link(mine, path)) return () => rmSync(path, { force: true });
      const text = read(path);
      if (text === null) continue;
      const other = parseOwner(text);
      if (other !== null && isAlive(other)) {
        throw new StoreError(
          `${dataDirectory} is in use by the process ${other.pid}: stop it, or set another DATA_DIR`,
        );
      }
      if (removeStale(path, `${mine}.stale`, text) && other !== null) removeSocketFolder(other.socketDirectory);
    }
    throw new StoreError(`${dataDirectory} is being opened by several processes at once`);
  } finally {
    rmSync(mine, { force: true });
  }
}

function link(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** A lock that can't be read was left by a crash of the machine: nobody else can leave a half one. */
function parseOwner(text: string): Owner | null {
  try {
    return ownerShape.parse(JSON.parse(text));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return null;
    throw error;
  }
}

/** Moves the lock away and makes sure that it was the stale one: another starter may have put its own there meanwhile. */
function removeStale(path: string, aside: string, stale: string): boolean {
  try {
    renameSync(path, aside);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
  const wasStale = read(aside) === stale;
  if (!wasStale) link(aside, path);
  rmSync(aside, { force: true });
  return wasStale;
}

/** Never recursive: only what a store puts there, and only a folder of ours. */
function removeSocketFolder(socketDirectory: string): void {
  if (!basename(socketDirectory).startsWith(SOCKET_FOLDER_PREFIX)) return;
  rmSync(join(socketDirectory, SOCKET_NAME), { force: true });
  try {
    rmdirSync(socketDirectory);
  } catch (error) {
    // Gone already, no longer empty, or somebody else's now: nothing that keeps us from starting.
    if (!['ENOENT', 'ENOTEMPTY', 'ENOTDIR', 'EACCES', 'EPERM'].includes(codeOf(error) ?? '')) throw error;
  }
}

function isAlive({ pid, startedAt }: Owner): boolean {
  if (startedAt !== null) return startOf(pid) === startedAt;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

/** proc(5): field 22 of /proc/PID/stat; the second one is a name in parentheses that may hold anything. */
function startOf(pid: number): string | null {
  const stat = read(`/proc/${pid}/stat`);
  const ticks = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  const boot = read('/proc/sys/kernel/random/boot_id')?.trim();
  return ticks === undefined || boot === undefined ? null : `${boot}/${ticks}`;
}
