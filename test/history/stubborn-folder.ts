// A process that finds a dead folder which can't be removed, because something is mounted in it. It prints what it reported, and whether it kept descriptors.
import { readdirSync } from 'node:fs';
import { openTelling } from './journal-harness.js';

const [, , directory] = process.argv;
if (directory === undefined) throw new Error('Which folder?');
const { journal, damage, transientFailures } = await openTelling(directory);
const before = openDescriptors();
for (let round = 0; round < 3; round += 1) await journal.adopt();
const told = {
  transientFailures: transientFailures.map(({ reason }) => reason),
  damage: damage.map(({ reason }) => reason),
};
process.stdout.write(`${JSON.stringify({ more: openDescriptors() - before, ...told })}\n`);
await journal.close();

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}
