// Containers of databases: what is in them is read whole, and what is damaged is refused.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { membersOf } from '../../../../src/engine/clamav/gates/bundle.js';
import { bundle, tar } from '../../../fixtures/archives.js';
import { temporaryFolder } from '../../../native/engine.js';

async function read(path: string, isWanted = (_name: string): boolean => true): Promise<Record<string, string | null>> {
  const found: Record<string, string | null> = {};
  for await (const { name, content } of membersOf(path, isWanted)) {
    if (name !== 'test.info') found[name] = content?.toString('latin1') ?? null;
  }
  return found;
}

t.test('compressed or not, every member is there', async (t) => {
  const folder = temporaryFolder(t);
  const long = 'x'.repeat(100_000);
  const files = { 'a.ldb': 'one\n', 'b.fp': '', 'c.ftm': long, 'd.cbc': 'program' };
  for (const [name, content] of Object.entries({
    'x.cvd': bundle(files),
    'x.cld': bundle(files, { compressed: false }),
  })) {
    const path = join(folder, name);
    writeFileSync(path, content);
    t.strictSame(await read(path), files, name);
    t.strictSame(await read(path, (one) => one.endsWith('.ldb')), {
      'a.ldb': 'one\n',
      'b.fp': null,
      'c.ftm': null,
      'd.cbc': null,
    });
  }
});

t.test('a damaged container is refused', async (t) => {
  const path = join(temporaryFolder(t), 'x.cvd');
  const whole = bundle({ 'a.ldb': 'one\n'.repeat(500), 'b.ldb': 'two\n' });
  const archive = tar([{ name: 'a.ldb', content: Buffer.from('one') }]);
  const size = Buffer.from(archive);
  size.write('77777777777', 124, 'latin1');
  const link = Buffer.from(archive);
  link[156] = '2'.charCodeAt(0);
  const header = whole.subarray(0, 512);
  for (const [what, content] of Object.entries({
    cut: whole.subarray(0, whole.length - 30),
    'no header': Buffer.alloc(100, 1),
    'not an archive': Buffer.concat([header, gzipSync('no archive')]),
    'a size beyond the end': Buffer.concat([header, gzipSync(size)]),
    'a link': Buffer.concat([header, gzipSync(link)]),
  })) {
    writeFileSync(path, content);
    await t.rejects(read(path), what);
  }
  await t.rejects(read(join(temporaryFolder(t), 'missing.cvd')), { code: 'ENOENT' });
});
