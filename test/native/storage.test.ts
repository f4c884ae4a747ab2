// A scan that could not use its temporary folder has no verdict: libclamav calls such content clean, we must not.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { z } from 'zod';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { gzip, mail, nestedZip, tar, zip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { noNamespaces } from '../fixtures/namespaces.js';
import { eicar } from '../fixtures/samples.js';

const program = fileURLToPath(new URL('./starved-scans.js', import.meta.url));
const TEST_FILES = '/usr/share/clamav-testfiles';
const answer = z.object({ code: z.number(), virusName: z.string().nullable(), storageFailed: z.boolean() });
const answers = z.object({ before: z.array(answer), starved: z.array(answer) });

function samples(t: { teardown(undo: () => void): void }): string[] {
  const folder = join(temporaryFolder(t), 'samples');
  const member = { name: 'eicar.com', content: eicar() };
  const made: Record<string, Buffer> = {
    'a.com': eicar(),
    'a.zip': zip([member]),
    'a.tar': tar([member]),
    'a.tar.gz': gzip(tar([member])),
    'a.gz': gzip(eicar()),
    'a.mail': mail(eicar()),
    'nested.zip': nestedZip(eicar(), 4),
    'encrypted.zip': zip([{ name: 'secret', content: Buffer.from('secret'), encrypted: true }, member]),
  };
  mkdirSync(folder);
  for (const [name, content] of Object.entries(made)) writeFileSync(join(folder, name), content);
  return Object.keys(made).map((name) => join(folder, name));
}

function scanStarved(want: string, paths: readonly string[]) {
  // 256 descriptors: enough for node, few enough to take them all.
  const output = execFileSync(
    'sh',
    ['-c', 'ulimit -n 256; exec "$0" "$@"', process.execPath, program, want, ownSignaturesDirectory, ...paths],
    { encoding: 'utf8' },
  );
  return answers.parse(JSON.parse(output));
}

for (const [want, missing] of [
  ['folder', 'temporary folder'],
  ['descriptors', 'file descriptors'],
] as const) {
  t.test(`without ${missing} nothing infected is called clean`, async (t) => {
    const debian = readdirSync(TEST_FILES).map((name) => join(TEST_FILES, name));
    const paths = [...samples(t), ...debian];
    const { before, starved } = scanStarved(want, paths);
    for (const [index, path] of paths.entries()) {
      if (before[index]?.virusName === null) continue;
      t.not(starved[index]?.code, 0, `${path}: ${JSON.stringify(starved[index])}`);
      t.notMatch(starved[index]?.virusName ?? '', /Encrypted/, 'and not merely encrypted');
    }
  });
}

t.test('without file descriptors in the middle of a scan the storage is at fault, not the content', async (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, 'nested.zip');
  // Each layer holds one or two of them.
  writeFileSync(path, nestedZip(eicar(), 9));
  const { before, starved } = scanStarved('5', [path]);
  t.match(before, [{ code: 1, storageFailed: false }]);
  t.match(starved, [{ virusName: null, storageFailed: true }]);
  t.not(starved[0]?.code, 0);
});

/** Far more than the disk of the next test has room for, and then the test file. */
function large(t: { teardown(undo: () => void): void }): string[] {
  const folder = temporaryFolder(t);
  const members = [
    { name: 'large', content: Buffer.alloc(12 * 1024 * 1024, 'some text ') },
    { name: 'eicar.com', content: eicar() },
  ];
  const made: Record<string, Buffer> = {
    'a.zip': zip(members),
    'a.tar': tar(members),
    'a.tar.gz': gzip(tar(members)),
    'inner.zip': zip([{ name: 'inner.zip', content: zip(members) }]),
    'a.mail': mail(zip(members)),
  };
  for (const [name, content] of Object.entries(made)) writeFileSync(join(folder, name), content);
  return Object.keys(made).map((name) => join(folder, name));
}

for (const [want, how] of [
  ['full', 'that is full'],
  ['room', 'that fills up in a scan'],
] as const) {
  t.test(
    `on a disk ${how} nothing infected is called clean, and some of it has no verdict`,
    { skip: noNamespaces },
    async (t) => {
      const disk = temporaryFolder(t);
      const mounted = 'mount -t tmpfs -o size=4m none "$TMPDIR" && exec "$@"';
      const output = execFileSync(
        'unshare',
        ['-rm', 'sh', '-c', mounted, 'sh', process.execPath, program, want, ownSignaturesDirectory, ...large(t)],
        { encoding: 'utf8', env: { ...process.env, TMPDIR: disk } },
      );
      const { starved } = answers.parse(JSON.parse(output));
      t.equal(starved.length, 5);
      for (const each of starved) t.not(each.code, 0, JSON.stringify(each));
      t.ok(
        starved.some(({ virusName }) => virusName === null),
        JSON.stringify(starved),
      );
    },
  );
}
