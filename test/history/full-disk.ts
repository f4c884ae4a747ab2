// A process whose journal lies on a disk that is nearly full: appends until it is refused, its clock is set back, makes room, appends again; says what it saw.
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
const problem = journal.refusal();
const hourAgo = Date.now() - 3_600_000;
Date.now = () => hourAgo;
const empty = [countEmpty()];
while (empty.length < 3) {
  await untilTried();
  const row = rowAt(Date.now(), { filename: 'x'.repeat(200), error: 'x'.repeat(200), env: 'x'.repeat(200) });
  await record(journal, row).then(
    () => kept.push(row.id),
    () => empty.push(countEmpty()),
  );
}
await untilTried();
rmSync(ballast);
const late = rowAt(Date.now());
await record(journal, late);
kept.push(late.id);

const read: string[] = [];
for (let batch = await journal.read(100); batch !== null; batch = await journal.read(100)) {
  read.push(...batch.rows.map(({ id }) => id));
  batch.commit();
}
process.stdout.write(
  `${JSON.stringify({ refusedBy, problem, kept: kept.length, empty, same: kept.join() === read.join() })}\n`,
);
await journal.close();

async function untilTried(): Promise<void> {
  await until(() => journal.refusal() === null);
}

/** Segments with nothing in them, while nobody copies them. */
function countEmpty(): number {
  const below = join(directory ?? '', 'journal');
  return readdirSync(below, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.log') && statSync(join(below, name)).size === 0,
  ).length;
}
