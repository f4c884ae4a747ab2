// Folders that belong to one process, in a place that processes of several containers share.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { processFolderName, removeOrphans, showLife } from '../../src/engine/scratch.js';
import { after } from '../fixtures/later.js';
import { noNamespaces } from '../fixtures/namespaces.js';
import { temporaryFolder } from '../native/engine.js';

const PREFIX = 'process-';

t.test(
  'two processes in different containers leave the folders of each other alone while both live',
  { skip: noNamespaces },
  async (t) => {
    const parent = temporaryFolder(t);
    const own = join(parent, `${processFolderName(PREFIX)}0`);
    mkdirSync(own);
    const module = new URL('../../src/engine/scratch.js', import.meta.url).href;
    const script = `
    const { processFolderName, removeOrphans } = await import('${module}');
    const { mkdirSync } = await import('node:fs');
    mkdirSync('${parent}/' + processFolderName('${PREFIX}') + '0');
    removeOrphans('${parent}', '${PREFIX}');`;
    const other = ['-rpf', '--mount-proc', process.execPath, '--input-type=module', '--eval', script];
    const { status, stderr } = spawnSync('unshare', other, { encoding: 'utf8' });
    t.equal(status, 0, stderr);
    t.equal(readdirSync(parent).length, 2, 'our pid does not count there');
    t.strictSame(removeOrphans(parent, PREFIX), []);
    t.equal(readdirSync(parent).length, 2, 'its pid does not count here');

    const longAgo = Date.now() / 1000 - 3600;
    for (const name of readdirSync(parent)) utimesSync(join(parent, name), longAgo, longAgo);
    removeOrphans(parent, PREFIX);
    showLife(own);
    after(t, 900_000);
    removeOrphans(parent, PREFIX);
    const [left = '', ...more] = readdirSync(parent);
    t.strictSame(more, [], 'the other one has shown no life for a quarter of an hour');
    t.ok(statSync(join(parent, left)).mtimeMs > longAgo * 1000 + 1_800_000, 'this one has');
  },
);

t.test('a folder that was never made, or a parent that can not be looked into, harms nobody', async (t) => {
  const parent = join(temporaryFolder(t), 'not', 'there');
  showLife(join(parent, 'folder'));
  t.match(removeOrphans(parent, PREFIX), [/leftover folders cannot be looked for/]);
});
