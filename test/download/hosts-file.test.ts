// The hosts file: who is where, comments and nonsense left out; a machine without one has none.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readHostsFile } from '../../src/download/downloads.js';
import { temporaryFolder } from '../fixtures/folder.js';

const folder = temporaryFolder(t);

t.test('names and their addresses, all of them', async (t) => {
  const path = join(folder, 'hosts');
  writeFileSync(
    path,
    [
      '127.0.0.1 localhost',
      '::1\tlocalhost  ip6-localhost # the other family',
      '# 10.0.0.1 commented.example',
      '  10.0.0.2   Files.Example files\r',
      'not-an-address nothing.example',
      '10.0.0.3',
      '',
    ].join('\n'),
  );
  t.strictSame(
    [...readHostsFile(path)],
    [
      ['localhost', ['127.0.0.1', '::1']],
      ['ip6-localhost', ['::1']],
      ['files.example', ['10.0.0.2']],
      ['files', ['10.0.0.2']],
    ],
  );
});

t.test('a missing file is none, an unreadable one is an error', async (t) => {
  t.equal(readHostsFile(join(folder, 'absent')).size, 0);
  t.throws(() => readHostsFile(folder));
});
