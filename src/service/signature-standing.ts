// How good the signatures are that serve: only the few that ship, ClamAV's of today, ClamAV's that are old, or others without an age.
import type { SignatureFolders } from '../config/config.js';
import type { Engine } from '../engine/engine.js';
import { presentFolders } from '../engine/folders.js';
import { ownSignaturesDirectory } from '../paths.js';

export const standings = ['starter', 'current', 'old', 'other'] as const;
export type Standing = (typeof standings)[number];

/** Seconds: ClamAV makes a daily database every day. */
const OLD_FROM_S = 24 * 60 * 60;

/** Which folders count is looked up once for each load: what is put into them later does not serve yet. */
export function createStandings(
  folders: SignatureFolders,
  now: () => number,
): (engine: Pick<Engine, 'epoch' | 'dailyBuiltAt'>) => Standing {
  let seen = { epoch: 0, isStarter: false };
  return ({ epoch, dailyBuiltAt }) => {
    if (dailyBuiltAt !== null) return now() / 1000 - dailyBuiltAt < OLD_FROM_S ? 'current' : 'old';
    if (seen.epoch !== epoch) {
      seen = { epoch, isStarter: presentFolders(folders).every((folder) => folder === ownSignaturesDirectory) };
    }
    return seen.isStarter ? 'starter' : 'other';
  };
}
