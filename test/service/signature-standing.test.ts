// How good the signatures are that serve: by their folders, and by the age of ClamAV's daily database.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createStandings } from '../../src/engine/folders.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';

const DAY_S = 24 * 60 * 60;

t.test('a daily database is old from a day on', async (t) => {
  const standing = createStandings(
    { directories: [ownSignaturesDirectory], optionalDirectories: [] },
    () => 2 * DAY_S * 1000,
  );
  t.equal(standing({ epoch: 1, dailyBuiltAt: DAY_S + 1 }), 'current');
  t.equal(standing({ epoch: 1, dailyBuiltAt: DAY_S }), 'old');
});

t.test('what is put into a folder counts from the next load on', async (t) => {
  const downloads = temporaryFolder(t);
  const folders = { directories: [ownSignaturesDirectory], optionalDirectories: [downloads] };
  const standing = createStandings(folders, Date.now);
  t.equal(standing({ epoch: 1, dailyBuiltAt: null }), 'starter');
  writeFileSync(join(downloads, 'a.ndb'), 'Test:0:*:00112233\n');
  t.equal(standing({ epoch: 1, dailyBuiltAt: null }), 'starter');
  t.equal(standing({ epoch: 2, dailyBuiltAt: null }), 'other');
});
