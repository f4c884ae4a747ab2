// The REST wrapper around clamd, as the bench starts it and ends it.
import { existsSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import t from 'tap';
import { startRestClamd } from '../../bench/contestants/http.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { childrenOf } from '../fixtures/processes.js';

t.test('its clamd ends with it', async (t) => {
  const setting = { databaseDirectory: ownSignaturesDirectory, threads: 1, folder: tmpdir(), gatesStore: null };
  const { pid, stop } = await startRestClamd(setting, 1);
  const children = childrenOf(pid);
  t.equal(children.length, 1);
  t.match(readFileSync(`/proc/${children[0]}/comm`, 'latin1'), 'clamd');
  await stop();
  t.notOk(existsSync(`/proc/${children[0]}`));
});
