// Whose account the embedded PostgreSQL runs under: the one that Sluice has, or, since PostgreSQL refuses root, another one for root's.
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, lchownSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { messageOfError } from '../../error-text.js';
import { StoreError } from '../store-error.js';

/** Programs of the system, wherever the caller's PATH leads. */
export const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** The kernel's id for nobody, and nobody's in every distribution. */
const NOBODY = 65534;
/** A smart shutdown: the servers that are left still write what they have, and the last of them ends the database. */
const WHEN_PARENT_DIES = ['--pdeathsig', 'TERM'];

export interface FolderOwner {
  readonly uid: number;
  readonly gid: number;
}

export interface DatabaseAccount {
  /** What files must belong to; null: what this process makes is right as it is. */
  readonly owner: FolderOwner | null;
  /** How a program of PostgreSQL is started, so that it runs under the account and hears of this process's death. */
  readonly prefix: readonly string[];
  /** The same for initdb, which asks for the name of its account. */
  readonly initdbPrefix: readonly string[];
  /** For messages. */
  readonly name: string;
}

/** `user`: DATABASE_USER. `folder`: what may be there from an earlier start, and keeps its owner. Throws a StoreError. */
export function databaseAccount(user: string | null, folder: string): DatabaseAccount {
  const ownUid = process.getuid?.() ?? 0;
  const setpriv = systemProgram('setpriv');
  if (ownUid !== 0) {
    if (user !== null && ownerNamed(user).uid !== ownUid) {
      throw new StoreError(`DATABASE_USER is ${user}, and only root can start the database as somebody else: unset it`);
    }
    const prefix = setpriv === null ? [] : [setpriv, ...WHEN_PARENT_DIES, '--'];
    const initdbPrefix = hasName() ? prefix : [...prefix, ...namedNobody()];
    return { owner: null, prefix, initdbPrefix, name: `the user ${ownUid}` };
  }
  if (setpriv === null) {
    throw new StoreError(
      'PostgreSQL does not run as root, and setpriv (of util-linux), which starts it as another user, is not installed: install it, ' +
        'start Sluice as another user, or set DATABASE_URL',
    );
  }
  const owner = user === null ? (earlierOwner(folder) ?? { uid: NOBODY, gid: NOBODY }) : ownerNamed(user);
  if (owner.uid === 0)
    throw new StoreError('DATABASE_USER is root, and PostgreSQL does not run as root: name another user');
  // The folders above may be root's alone: the one capability lets it pass, as root does.
  const prefix = [
    setpriv,
    `--reuid=${owner.uid}`,
    `--regid=${owner.gid}`,
    '--clear-groups',
    '--inh-caps=-all,+dac_override',
    '--ambient-caps=-all,+dac_override',
    // Without it access(2), by which PostgreSQL looks for its own programs, leaves the capability out.
    '--securebits=+no_setuid_fixup',
    ...WHEN_PARENT_DIES,
    '--',
  ];
  return { owner, prefix, initdbPrefix: prefix, name: `the user ${user ?? owner.uid}` };
}

/** Gives a folder, and all in it where it belongs to another one, to the account. Throws a StoreError. */
export function giveTo(account: DatabaseAccount, folder: string): void {
  const { owner } = account;
  if (owner === null) return;
  try {
    const { uid, gid } = lstatSync(folder);
    if (uid === owner.uid && gid === owner.gid) return;
    for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      lchownSync(join(folder, path), owner.uid, owner.gid);
    }
    // Last: a change that was cut off is made whole by the next start.
    chownSync(folder, owner.uid, owner.gid);
  } catch (error) {
    throw new StoreError(
      `${folder} can't be given to ${account.name} (${messageOfError(error)}): start Sluice as another user, or set DATABASE_URL`,
    );
  }
}

/** A program of the system, by its path; null: it is not installed. */
export function systemProgram(name: string): string | null {
  return (
    SYSTEM_PATH.split(':')
      .map((folder) => join(folder, name))
      .find((path) => existsSync(path)) ?? null
  );
}

/** A service's folder stays the service's, also when root looks into it. What root has copied is nobody's yet. */
function earlierOwner(folder: string): FolderOwner | null {
  if (!existsSync(folder)) return null;
  const { uid, gid } = lstatSync(folder);
  return uid === 0 ? null : { uid, gid };
}

/** A name, or a number. */
function ownerNamed(user: string): FolderOwner {
  const id = (flag: string): number =>
    Number(execFileSync('id', [flag, '--', user], { encoding: 'utf8', stdio: 'pipe', env: { PATH: SYSTEM_PATH } }));
  try {
    return { uid: id('-u'), gid: id('-g') };
  } catch {
    throw new StoreError(`DATABASE_USER is ${user}, and there is no such user`);
  }
}

function hasName(): boolean {
  try {
    userInfo();
    return true;
  } catch {
    return false;
  }
}

/** In a user namespace of its own, where the kernel allows that, an account without a name is nobody, who has one. */
function namedNobody(): string[] {
  const unshare = systemProgram('unshare');
  const passwd = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : '';
  if (unshare === null || !passwd.includes(`:${NOBODY}:`)) return [];
  return [unshare, '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, '--'];
}
