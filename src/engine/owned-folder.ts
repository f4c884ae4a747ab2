// Whose a folder is. One that was left behind in a place where other users can write is removed only if it belongs to our user, by descriptor, never through a link.
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  realpathSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { codeOf } from '../error-text.js';

const FOLDER_ITSELF = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** A link or a file can't be opened as a folder. A folder may have gone meanwhile. */
const NO_FOLDER = new Set(['ELOOP', 'ENOTDIR', 'ENOENT']);

/** Whether it belongs to the user of this process. */
export function isOurs({ uid }: Pick<Stats, 'uid'>): boolean {
  return uid === process.geteuid?.();
}

const OTHERS_MAY_WRITE = 0o022;
const STICKY = 0o1000;

/**
 * Whether nobody but our user and root can write to it, or put something else in its place: this and all folders above it are theirs and closed to others.
 * In a sticky one of root's, such as /tmp, others can't. Throws the system's error when it is not there.
 */
export function isClosedToOthers(folder: string): boolean {
  const real = realpathSync(folder);
  return wayTo(real).every((one) => {
    const found = lstatSync(one);
    const isSticky = found.uid === 0 && (found.mode & STICKY) !== 0;
    return isOursOrRoots(found) && ((found.mode & OTHERS_MAY_WRITE) === 0 || isSticky);
  });
}

export function isOursOrRoots(stats: Pick<Stats, 'uid'>): boolean {
  return stats.uid === 0 || isOurs(stats);
}

function wayTo(folder: string): readonly string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...wayTo(above)];
}

/**
 * Removes the folder of that name with all that is in it. False: there is none, or it belongs to another user, and is left
 * alone. Throws the system's error when it is ours and can't be removed.
 */
export function removeOwnFolder(parent: string, name: string): boolean {
  const descriptor = openSync(parent, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    return removeBelow(descriptor, name);
  } finally {
    closeSync(descriptor);
  }
}

function removeBelow(parent: number, name: string): boolean {
  return withOwn(parent, name, (descriptor) => {
    for (const entry of readdirSync(below(descriptor), { withFileTypes: true })) {
      if (!entry.isDirectory()) unlinkSync(below(descriptor, entry.name));
      else removeBelow(descriptor, entry.name);
    }
  });
}

/** Empties the folder by `empty` and removes it, if it is ours. */
function withOwn(parent: number, name: string, empty: (descriptor: number) => void): boolean {
  const descriptor = openFolder(below(parent, name));
  if (descriptor === null) return false;
  try {
    const opened = fstatSync(descriptor);
    if (!isOurs(opened)) return false;
    empty(descriptor);
    const named = lstatSync(below(parent, name));
    if (named.dev !== opened.dev || named.ino !== opened.ino) return false;
    rmdirSync(below(parent, name));
    return true;
  } finally {
    closeSync(descriptor);
  }
}

function openFolder(path: string): number | null {
  try {
    return openSync(path, FOLDER_ITSELF);
  } catch (error) {
    if (NO_FOLDER.has(codeOf(error) ?? '')) return null;
    throw error;
  }
}

/** Proc(5): a link to the folder of the descriptor, also when the folder's name leads elsewhere by now. */
function below(descriptor: number, name = ''): string {
  return `/proc/self/fd/${descriptor}/${name}`;
}
