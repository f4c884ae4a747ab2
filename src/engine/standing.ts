// What the signatures that serve are worth, in one word and in a sentence.
import type { SignatureFolders } from '../config/config.js';
import { ownSignaturesDirectory } from '../paths.js';
import type { Engine } from './engine.js';
import { presentFolders } from './folders.js';

export const standings = ['starter', 'current', 'old', 'other'] as const;
export type Standing = (typeof standings)[number];

export const MEANINGS: Readonly<Record<Standing, string>> = {
  starter: 'only those that ship with Sluice: they find test files and a few shells, and call nearly all malware clean',
  old: "with ClamAV's, which are more than a day old: the newest malware is not among them",
  current: "with ClamAV's, less than a day old",
  other: "without ClamAV's daily database",
};

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
