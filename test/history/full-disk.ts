// A process whose journal lies on a disk that is nearly full: appends until it is refused, waits, makes room, appends again; says what it saw.
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openJournal } from '../../src/history/journal.js';
import { record, rowAt } from '../fixtures/history.js';
import { until } from '../fixtures/until.js';

const [, , directory] = process.argv;
if (directory === undefined) throw new Error('Which folder?');
const ballast = join(directory, 'ballast');
writeFileSync(ballast, Buffer.alloc(64 * 1024));
let refusedBy = '';
const journal = await openJournal({
  directory: join(directory, 'journal'),
  limitBytes: 1024 * 1024 * 1024,
  onDamage: () => undefined,
  onTransientFailure: () => undefined,
  onUnwritten: (error) => {
    refusedBy = String(error);
  },
});
const kept: string[] = [];
while (refusedBy === '') {
  // Several at once: the write that fails is that of a group.
  const rows = Array.from({ length: 7 }, () => rowAt(Date.now(), { filename: 'x'.repeat(200) }));
  const outcomes = await Promise.allSettled(rows.map((row) => record(journal, row)));
  for (const [index, outcome] of outcomes.entries()) {
    if (outcome.status === 'fulfilled') kept.push(rows[index]?.id ?? '');
  }
}
const problem = journal.refusal()?.detail;
// Longer than between two trials of the journal's own, which change nothing.
await delay(2_500);
const stays = journal.refusal()?.detail === problem;
const empty = countEmpty();
rmSync(ballast);
await until(() => journal.refusal() === null);
const late = rowAt(Date.now());
await record(journal, late);
kept.push(late.id);

const read: string[] = [];
for (let batch = await journal.read(100); batch !== null; batch = await journal.read(100)) {
  read.push(...batch.rows.map(({ id }) => id));
  batch.commit();
}
process.stdout.write(
  `${JSON.stringify({ refusedBy, problem, stays, kept: kept.length, empty, same: kept.join() === read.join() })}\n`,
);
await journal.close();

/** Segments with nothing in them, while nobody copies them. */
function countEmpty(): number {
  const below = join(directory ?? '', 'journal');
  return readdirSync(below, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.log') && statSync(join(below, name)).size === 0,
  ).length;
}
