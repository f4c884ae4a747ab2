// What readiness says to anybody: a reason names its file, and not where this machine has it.
import t from 'tap';
import { withoutPaths } from '../../src/service/endpoints.js';

const folders = ['/srv/my data', '/srv/my data/signatures', '/opt/sluice'];

const shown: readonly [string, string][] = [
  ['no signature database in /tmp/x/empty', 'no signature database in empty'],
  ['/srv/my data/signatures/a b.ndb: Malformed database', 'a b.ndb: Malformed database'],
  ['There is nothing in /srv/my data', 'There is nothing in my data'],
  ['connect ENOENT /run/db/.s.PGSQL.5432', 'connect ENOENT .s.PGSQL.5432'],
  [
    'not built (/opt/sluice/native/build/Release/sluice.node is missing)',
    'not built (native/build/Release/sluice.node is missing)',
  ],
  ['not built (/usr/lib/sluice.node is missing)', 'not built (sluice.node is missing)'],
  ["open '/var/lib/clamav/daily.cvd', '/etc'", "open 'daily.cvd', 'etc'"],
  [
    'Redis is away: redis://redis.internal:6379 and/or others',
    'Redis is away: redis://redis.internal:6379 and/or others',
  ],
  ['/', ''],
];
for (const [text, expected] of shown) t.equal(withoutPaths(text, folders), expected);
