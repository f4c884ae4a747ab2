// Whose the data folder is: what root's commands put into that of another user is given to this user, or the service could not read it.
import { closeSync, constants, fchownSync, fstatSync, lchownSync, openSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf } from '../error-text.js';
import type { FolderOwner } from '../store/embedded/account.js';

/** Null: what this process makes is right as it is, since it is not root's, or the folder is, or there is none. */
export function otherOwner(folder: string): FolderOwner | null {
  if (process.getuid?.() !== 0) return null;
  const found = statSync(folder, { throwIfNoEntry: false });
  return found === undefined || found.uid === 0 ? null : { uid: found.uid, gid: found.gid };
}

/** A file of root's in a folder where nobody else can put anything. */
export function giveFile(path: string, { uid, gid }: FolderOwner): void {
  lchownSync(path, uid, gid);
}

// O_NONBLOCK: a FIFO that lies there is waited for by nobody.
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
/** Gone meanwhile; a link; a socket. */
const LEFT_ALONE = new Set(['ENOENT', 'ELOOP', 'ENXIO']);

/**
 * Gives to the owner of the data folder what lies there under this name, and all in it. Its owner may change the folder meanwhile: each place is opened below the
 * one above it and never by a link, and a file with a second name, which may be another one's, stays whose it is.
 */
export function giveToOwner(dataDirectory: string, name: string): void {
  const owner = otherOwner(dataDirectory);
  if (owner !== null) give(join(dataDirectory, name), owner);
}

function give(path: string, owner: FolderOwner): void {
  let descriptor: number;
  try {
    descriptor = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    if (LEFT_ALONE.has(codeOf(error) ?? '')) return;
    throw error;
  }
  try {
    const found = fstatSync(descriptor);
    const inside = `/proc/self/fd/${descriptor}`;
    if (found.isDirectory()) for (const name of readdirSync(inside)) give(join(inside, name), owner);
    else if (!found.isFile() || found.nlink > 1) return;
    // As it is again, a database has nothing new for the servers that look at its times.
    if (found.uid !== owner.uid || found.gid !== owner.gid) fchownSync(descriptor, owner.uid, owner.gid);
  } finally {
    closeSync(descriptor);
  }
}
