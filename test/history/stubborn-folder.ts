// A process that finds a dead folder which can't be removed, for something is mounted in it: says what it told, and whether it kept descriptors.
import { readdirSync } from 'node:fs';
import { openJournal } from '../../src/history/journal.js';

const [, , directory] = process.argv;
if (directory === undefined) throw new Error('Which folder?');
const damage: string[] = [];
const hindered: string[] = [];
const journal = await openJournal({
  directory,
  limitBytes: 1024 * 1024,
  onDamage: ({ reason }) => damage.push(reason),
  onHindered: ({ reason }) => hindered.push(reason),
});
const before = openDescriptors();
for (let round = 0; round < 3; round += 1) await journal.adopt();
process.stdout.write(`${JSON.stringify({ more: openDescriptors() - before, hindered, damage })}\n`);
await journal.close();

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}
