// Containers of databases: what is in them is read whole, and what is damaged is refused. Bytecode programs as ClamAV writes them: what is read of their text.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { membersOf, readProgram } from '../../../../src/engine/clamav/gates/database-files.js';
import { bundle, tar } from '../../../fixtures/archives.js';
import { bytecodeProgram } from '../../../fixtures/bytecode.js';
import { temporaryFolder } from '../../../fixtures/folder.js';

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

const [LOGICAL, UNPACKER] = [256, 257];
const TRIGGER = 'BC.Test.Program-1.{A,B};Engine:56-255,Target:1;0;6d61726b';

const program = (kind: number, calls: readonly string[], second = TRIGGER): Buffer =>
  bytecodeProgram(kind, calls, second);

t.test('one that runs at a trigger and calls nothing but what finds, only finds', async (t) => {
  t.same(readProgram(program(LOGICAL, ['read', 'seek', 'setvirusname'])), { trigger: TRIGGER, onlyFinds: true });
  t.same(readProgram(program(LOGICAL, [])), { trigger: TRIGGER, onlyFinds: true });
});

t.test('one that hands on layers, writes, runs elsewhere, or calls what nobody knows, does more', async (t) => {
  for (const call of ['extract_new', 'write', 'disable_bytecode_if', 'of_tomorrow']) {
    t.match(readProgram(program(LOGICAL, ['read', call])), { trigger: TRIGGER, onlyFinds: false }, call);
  }
  t.match(readProgram(program(UNPACKER, ['setvirusname'])), { onlyFinds: false });
  t.match(readProgram(program(LOGICAL, ['setvirusname'], 'BC.Test.Hook')), { trigger: null, onlyFinds: false });
  const whole = program(LOGICAL, ['read']).toString('latin1');
  t.match(readProgram(Buffer.from(whole.replace('\nE', '\nX'))), { onlyFinds: false }, 'what it calls is not told');
});

t.test('what is damaged is not understood', async (t) => {
  const whole = program(LOGICAL, ['read', 'setvirusname']).toString('latin1');
  t.equal(readProgram(Buffer.from('')), null);
  t.equal(readProgram(Buffer.from(whole.slice(1))), null);
  t.equal(readProgram(Buffer.from(whole.replace('|', '/'))), null);
  t.equal(readProgram(Buffer.from(whole.slice(0, whole.indexOf('\nE') + 12))), null);
});
