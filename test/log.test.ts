// The log's last lines: all of them are written before an exit, also those that come while others are being written.
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLog, seldom } from '../src/log.js';
import { temporaryFolder } from './fixtures/folder.js';

t.test('lines that come while others are written are there after the flush', async (t) => {
  const path = join(temporaryFolder(t), 'log');
  const { log, flush } = createLog('info', openSync(path, 'w'));
  log.info('first');
  const first = flush();
  log.info('last');
  await flush();
  t.match(readFileSync(path, 'utf8'), /"first".*\n.*"last".*\n$/);
  await first;
});

t.test('a line about an event is the line that pino would write, by the same level', async (t) => {
  const path = join(temporaryFolder(t), 'log');
  const fields = { text: 'a "b" \u0001 \ud800 ü', count: 1.5, yes: true, nothing: null };
  for (const level of ['info', 'warn']) {
    const { log, flush } = createLog(level, openSync(path, 'a'));
    log.info(fields, 'one');
    log.event([JSON.stringify(fields).slice(1, -1)], 'one');
    await flush();
  }
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  const [pinos, ours] = lines.map((line) => JSON.parse(line));
  t.equal(lines.length, 2, 'none below the level');
  t.strictSame(Object.keys(ours), Object.keys(pinos));
  t.match(ours.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  t.strictSame({ ...ours, time: '' }, { ...pinos, time: '' });
});

t.test('the same problem is logged once a minute', async (t) => {
  const told: string[] = [];
  let nowMs = 0;
  const tell = seldom(
    (problem) => told.push(problem),
    () => nowMs,
  );
  for (nowMs = 0; nowMs < 120_000; nowMs += 1_000) tell(nowMs === 5_000 ? 'other' : 'away');
  t.strictSame(told, ['away', 'other', 'away']);
});
