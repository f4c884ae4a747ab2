// A process that finds a dead folder which can't be removed, for something is mounted in it: says what it told, and whether it kept descriptors.
import { readdirSync } from 'node:fs';
import { openTelling } from './open-telling.js';

const [, , directory] = process.argv;
if (directory === undefined) throw new Error('Which folder?');
const { journal, damage, hindered } = await openTelling(directory);
const before = openDescriptors();
for (let round = 0; round < 3; round += 1) await journal.adopt();
process.stdout.write(`${JSON.stringify({ more: openDescriptors() - before, hindered, damage })}\n`);
await journal.close();

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}
