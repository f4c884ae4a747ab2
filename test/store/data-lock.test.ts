// The lock on a folder, given back.
import { closeSync, fstatSync, openSync } from 'node:fs';
import t from 'tap';
import { lockDataDirectory } from '../../src/store/data-lock.js';
import { temporaryFolder } from '../fixtures/folder.js';

t.test('a lock that is given back twice closes nothing of others', async (t) => {
  const directory = temporaryFolder(t);
  const release = await lockDataDirectory(directory);
  await release();
  // One of them has the number that the lock's folder had.
  const others = Array.from({ length: 64 }, () => openSync(directory, 'r'));
  await release();
  for (const descriptor of others) t.doesNotThrow(() => fstatSync(descriptor), `${descriptor} is open`);
  others.forEach(closeSync);
});
