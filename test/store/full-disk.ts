// A process whose embedded database lies on a disk that fills up: writes until it is refused, makes room, writes again; says what it saw.
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { codeOf, messageOfError } from '../../src/error-text.js';
import { openPostgres } from '../../src/store/postgres.js';
import { keepStore } from '../../src/supervisor/kept.js';
import { until } from '../fixtures/until.js';

const [, , disk, mode] = process.argv;
if (disk === undefined) throw new Error('Which folder?');
const dataDirectory = join(disk, 'data');
const log = pino({ level: 'silent' });

/** Leaves nothing but what files have already. */
function fillDisk(path: string): void {
  mkdirSync(path, { recursive: true });
  for (let bytes = 1024 * 1024; bytes >= 4096; ) {
    try {
      writeFileSync(join(path, randomBytes(8).toString('hex')), Buffer.alloc(bytes));
    } catch {
      bytes /= 2;
    }
  }
}

const ballast = join(disk, 'ballast');
if (mode === 'from the start') fillDisk(ballast);
const { socketDirectory, started, stop } = await keepStore({ dataDirectory }, log);
const message = await started.then(
  () => null,
  (error: unknown) => messageOfError(error),
);
if (message !== null) {
  process.stdout.write(`${JSON.stringify({ message })}\n`);
  await stop();
} else {
  const { sql, close } = await openPostgres({ kind: 'embedded', socketDirectory });
  await sql`CREATE TABLE kept (n int, filling text)`;
  const kept: number[] = [];
  let next = 0;
  const write = async (): Promise<string> => {
    next += 1;
    try {
      await sql`INSERT INTO kept VALUES (${next}, ${randomBytes(4000).toString('hex')})`;
      kept.push(next);
      return '';
    } catch (error) {
      return codeOf(error) ?? messageOfError(error);
    }
  };
  fillDisk(ballast);
  let refusedBy = '';
  while (refusedBy === '') refusedBy = await write();
  for (let times = 0; times < 20; times += 1) await write();
  rmSync(ballast, { recursive: true });
  await until(async () => (await write()) === '');
  const found = await sql<{ n: number }[]>`SELECT n FROM kept ORDER BY n`;
  const there = new Set(found.map(({ n }) => n));
  const lost = kept.filter((n) => !there.has(n));
  process.stdout.write(`${JSON.stringify({ refusedBy, kept: kept.length, lost })}\n`);
  await close();
  await stop();
}
