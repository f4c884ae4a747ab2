// A process that has hardly a file descriptor left when it looks for the dead: it prints what it reported, and what it took over afterwards.
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { encodeRow, frame, rowAt } from '../fixtures/history.js';
import { openTelling } from './journal-harness.js';

const [, , directory] = process.argv;
if (directory === undefined) throw new Error('Which folder?');
const { journal, damage, transientFailures } = await openTelling(directory);
const dead = join(directory, '00000000000000aa');
mkdirSync(join(dead, 'open'), { recursive: true });
writeFileSync(join(dead, '000000001.log'), frame(encodeRow(rowAt(Date.now()))));

/** Opens what can be opened, but for so many. */
function exhaust(free: number): number[] {
  const descriptors: number[] = [];
  for (;;) {
    try {
      descriptors.push(openSync('/dev/null', 'r'));
    } catch {
      for (const descriptor of descriptors.splice(0, free)) closeSync(descriptor);
      return descriptors;
    }
  }
}

const damagedFiles: number[] = [];
// With one the lock's socket can't be made; with two nobody can look for other locks.
for (const free of [1, 2]) {
  const descriptors = exhaust(free);
  await journal.adopt();
  for (const descriptor of descriptors) closeSync(descriptor);
  damagedFiles.push(journal.state().damagedFiles);
}
await journal.adopt();
const { rows } = journal.state();
const told = {
  transientFailures: transientFailures.map(({ reason }) => reason),
  damage: damage.map(({ reason }) => reason),
};
process.stdout.write(`${JSON.stringify({ ...told, damagedFiles, rows })}\n`);
await journal.close();
