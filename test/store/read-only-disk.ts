// A process whose disk turns read-only while it holds the lock of a data folder and a store of contents: gives both back, and says how that went.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { messageOfError } from '../../src/error-text.js';
import { openContentStore } from '../../src/scan/pending/content-store.js';
import { lockDataDirectory } from '../../src/store/data-lock.js';

const [, , disk] = process.argv;
if (disk === undefined) throw new Error('Which folder?');
const release = await lockDataDirectory(disk, { warn: () => undefined, error: () => undefined });
const settings = { key: Buffer.alloc(32), answerMs: 60_000, placeWaitMs: 60_000, limitBytes: 8 * 1024 * 1024 };
const contents = await openContentStore({ ...settings, directory: join(disk, 'async') });
execFileSync('mount', ['-o', 'remount,ro', disk]);
const said: Record<string, string> = {
  contents: await endOf(contents.close()),
  lock: await endOf(release()),
};
execFileSync('mount', ['-o', 'remount,rw', disk]);
const next = await lockDataDirectory(disk, { warn: () => undefined, error: () => undefined });
said['next'] = await endOf(next());
process.stdout.write(JSON.stringify(said));

function endOf(work: Promise<void>): Promise<string> {
  return work.then(() => 'given back', messageOfError);
}
