// Files of gates: which bytecode programs of a folder are behind gates, and several processes that make the same files.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { prepareGates, prepareGatesApart } from '../../../../src/engine/clamav/gates/prepare.js';
import { bundle } from '../../../fixtures/archives.js';
import { bytecodeProgram } from '../../../fixtures/bytecode.js';
import { temporaryFolder } from '../../../fixtures/folder.js';
import { generator } from '../../../fixtures/random.js';
import { databaseFolder } from '../../../native/engine.js';

const LOGICAL = 256;
const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');
const trigger = (name: string): string => `${name}.{};Engine:56-255,Target:0;0;${hex(`what starts ${name}`)}`;
const finder = bytecodeProgram(LOGICAL, ['read', 'setvirusname'], trigger('BC.Test.One-1'));
const unpacker = bytecodeProgram(LOGICAL, ['read', 'extract_new'], trigger('BC.Test.Two-1'));
const container = (files: Readonly<Record<string, Buffer>>): Buffer =>
  bundle(Object.fromEntries(Object.entries(files).map(([name, content]) => [name, content.toString('latin1')])));

for (const [what, files, gated] of [
  ['one that only finds is behind a gate', {}, 1],
  ['one that a list in the folder ignores is not', { 'own.ign2': 'BC.Test.One-1\n' }, 0],
  ['one that a list in a container ignores is not', { 'b.cud': bundle({ 'b.ign2': 'BC.Test.One-1:0123\n' }) }, 0],
  ['one of two of a name is not, whatever the other does', { 'b.cud': container({ '1.cbc': unpacker }) }, 0],
  [
    'one whose trigger a signature is called like is, and the signature is not',
    {
      'c.ldb': `BC.Test.One-1;Engine:81-255,Target:0;0;${hex('a literal of its own')}\n`,
    },
    1,
  ],
] as const) {
  t.test(what, async (t) => {
    const folder = databaseFolder(t, { 'a.cud': container({ '1.cbc': finder, '2.cbc': unpacker }), ...files });
    const { facts } = await prepareGates([folder], temporaryFolder(t));
    t.equal(facts.gated, gated);
  });
}

t.test('processes that make the same files at once leave the drafts of others alone', async (t) => {
  const lines = Array.from(
    { length: 200 },
    (_, index) => `Test.A${index};Engine:81-255,Target:0;0;${hex(`Xk2#qZ9!${index * 7919}`)}\n`,
  );
  const folder = databaseFolder(t, { 'a.ldb': lines.join('') });
  const store = join(temporaryFolder(t), 'gates');
  const drafts = Array.from({ length: 5 }, (_, index) => join(store, `draft-other${index}`));
  for (const draft of drafts) {
    mkdirSync(draft, { recursive: true });
    writeFileSync(join(draft, 'gates.ndb'), 'half');
  }
  const order = { directories: [folder], directory: store, threads: 1 };
  const all = await Promise.all(Array.from({ length: 6 }, () => prepareGatesApart(order)));
  t.ok(all.every(({ facts }) => facts.gated === 200));
  t.ok(drafts.every((draft) => existsSync(join(draft, 'gates.ndb'))));
});

t.test('files of gates that are there need no thread', async (t) => {
  let threads = 0;
  const count = (): void => {
    threads += 1;
  };
  subscribe('worker_threads', count);
  t.teardown(() => unsubscribe('worker_threads', count));
  const folder = databaseFolder(t, { 'a.ldb': `Test.A;Engine:81-255,Target:0;0;${hex('a literal of its own')}\n` });
  const order = { directories: [folder], directory: join(temporaryFolder(t), 'gates'), threads: 2 };
  const made = await prepareGatesApart(order);
  t.equal(threads, 1);
  t.same(await prepareGatesApart(order), made);
  t.equal(threads, 1);
});

t.test('several threads make the same files as one', async (t) => {
  const random = generator(3);
  const bytes = (count: number): string =>
    Array.from({ length: count }, () => (16 + Math.floor(random() * 240)).toString(16)).join('');
  // Some without a gate, and two of one name.
  const lines = Array.from({ length: 12_010 }, (_, index) => {
    const parts = [bytes(index % 100 === 0 ? 2 : 30), bytes(12)];
    return `Test.${index === 7 ? 8 : index};Engine:81-255,Target:${index % 4};0&1;${parts.join(';')}\n`;
  });
  const extended = Array.from({ length: 7_000 }, (_, index) => `Test.Plain-${index}:${index % 3}:*:${bytes(20)}\n`);
  const folder = databaseFolder(t, { 'a.ldb': lines.join(''), 'b.ndb': extended.join('') });
  const filesBy = async (threads: number): Promise<ReadonlyMap<string, string>> => {
    const store = join(temporaryFolder(t), 'gates');
    await prepareGatesApart({ directories: [folder], directory: store, threads });
    const names = readdirSync(store, { recursive: true, encoding: 'utf8' });
    const files = names.filter((name) => statSync(join(store, name)).isFile());
    return new Map(files.sort().map((name) => [name, readFileSync(join(store, name), 'latin1')]));
  };
  const files = await filesBy(1);
  t.ok(files.size > 3);
  t.same(await filesBy(3), files);
});

t.test(
  'one pass is enough where the extended signatures of programs are behind gates, whatever containers have',
  async (t) => {
    const gated = Array.from({ length: 3_000 }, (_, index) => `Test.${index}:1:*:${hex(`program ${index} of many`)}`);
    const passOf = async (files: Readonly<Record<string, string>>): Promise<boolean> => {
      const folder = databaseFolder(t, { 'a.cud': bundle({ 'a.ndb': `${gated.join('\n')}\n`, ...files }) });
      return (await prepareGates([folder], temporaryFolder(t), { prior: null })).options.singlePass;
    };
    t.equal(await passOf({}), true);
    t.equal(await passOf({ 'b.db': 'Test.Old=4a4b4c4d\n' }), false, 'what is not behind gates, and not counted');
    const alike = Array.from({ length: 17 }, (_, index) => `Test.Any-${index}:0:*:${hex(`alike ${index}`)}\n`);
    t.equal(await passOf({ 'b.ndb': alike.join('') }), false);
    t.equal(await passOf({ 'b.ndb': alike.slice(1).join('') }), true);
    const ofPages = Array.from({ length: 3_000 }, (_, index) => `Test.Page-${index}:3:*:${hex(`page ${index}`)}\n`);
    t.equal(await passOf({ 'b.ndb': ofPages.join('') }), true, 'those of pages have no pass of their own');
  },
);
