// When all signatures are matched in one pass: by how many of them are body signatures, as far as the files tell.
import t from 'tap';
import { isSinglePassFaster } from '../../../src/engine/clamav/single-pass.js';
import { ownSignaturesDirectory } from '../../../src/paths.js';
import { bodySignature, databaseFolder } from '../../native/engine.js';

const signatures = (count: number): string =>
  Array.from({ length: count }, (_, index) =>
    bodySignature(`Test.${index}`, `${index.toString(36).padStart(3, '0')} text`),
  ).join('');
const container = (count: number): string =>
  `ClamAV-VDB:18 Sep 2026 10-00 +0000:1:${count}:90:X:X:somebody:1790000000`.padEnd(512);

const isFaster = (directory: string): Promise<boolean> => isSinglePassFaster([directory]);

t.test('few body signatures, and any number of others', async (t) => {
  t.equal(await isFaster(ownSignaturesDirectory), true);
  t.equal(await isFaster(databaseFolder(t, { 'a.ndb': signatures(2_000), 'b.cvd': container(128) })), true);
  t.equal(await isFaster(databaseFolder(t, { 'a.ndb': signatures(2_000), 'b.NDB': signatures(49) })), false);
  t.equal(await isFaster(databaseFolder(t, { 'a.ndb': signatures(20), 'b.cvd': container(129) })), false);
  t.equal(await isFaster(databaseFolder(t, { 'a.hdb': signatures(5_000), 'b.ldb': signatures(5_000) })), true);
  const [one, other] = [
    databaseFolder(t, { 'a.ndb': signatures(2_000) }),
    databaseFolder(t, { 'a.ndb': signatures(49) }),
  ];
  t.equal(await isSinglePassFaster([one, other]), false, 'of all folders together');
});

t.test('signatures that begin alike, or are too short for two passes, are matched in two', async (t) => {
  const alike = (count: number): string =>
    Array.from({ length: count }, (_, index) => bodySignature(`Test.${index}`, `<?php ${index}`)).join('');
  t.equal(await isFaster(databaseFolder(t, { 'a.ndb': alike(16) })), true);
  t.equal(await isFaster(databaseFolder(t, { 'a.ndb': alike(17) })), false);
  t.equal(await isFaster(databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'JK') })), false);
  t.equal(await isFaster(databaseFolder(t, { 'a.db': 'Test.A=4a4b4c4d\n' })), true);
  t.equal(await isFaster(databaseFolder(t, { 'a.db': 'Test.A=4a4b\n' })), false);
});

t.test('a file that is too large to be counted has many', async (t) => {
  t.equal(await isFaster(databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'long '.repeat(120_000)) })), false);
  t.equal(await isFaster(databaseFolder(t, {})), true);
});
