// The folder of signatures that anybody can make: the same each time, of the size that was asked for, and libclamav finds what is in it and nothing in honest files.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { scanBuffer } from '../../src/engine/clamav/addon.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { load } from '../native/engine.js';

const program = fileURLToPath(new URL('../../bench/signatures.js', import.meta.url));
const COUNTS = ['--logical', '3000', '--file-hashes', '500', '--section-hashes', '500'];

t.test('signatures that are made up', async (t) => {
  const folders = ['one', 'other'].map((name) => join(temporaryFolder(t), name));
  for (const folder of folders) execFileSync(process.execPath, [program, folder, ...COUNTS], { stdio: 'ignore' });
  const [one = '', other = ''] = folders;
  const contentOf = (folder: string) => readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]);
  t.strictSame(contentOf(one), contentOf(other), 'they are the same each time');

  const own = await load(t, [ownSignaturesDirectory]);
  const engine = await load(t, [one]);
  t.equal(engine.signatureCount - own.signatureCount, 4_000);
  const lines = readFileSync(join(one, 'generated.ldb'), 'utf8').split('\n');
  let found = 0;
  for (const line of lines) {
    const [name = '', target, logic = '', ...strings] = line.split(';');
    const text = strings.join('');
    if (target !== 'Engine:81-255,Target:0' || logic.includes('|') || /[{:/]/.test(text)) continue;
    const scan = scanBuffer(Buffer.from(text.replaceAll('?', '4'), 'hex'));
    t.match(scan, { virusName: `${name}.UNOFFICIAL` });
    found += 1;
  }
  t.ok(found > 5, `${found} of them`);
  const honest = [process.execPath, program, '/bin/sh', '/usr/share/clamav-testfiles/clam.exe'];
  for (const path of honest) t.notMatch(scanBuffer(readFileSync(path)), { virusName: /Bench/ }, path);
});
