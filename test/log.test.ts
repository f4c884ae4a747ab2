// The log's last lines: all of them are written before an exit, also those that come while others are being written.
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLog } from '../src/log.js';
import { temporaryFolder } from './native/engine.js';

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
