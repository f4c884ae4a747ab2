// The store of accepted contents: bounded, shared between accounts, and taken over from processes that are gone.
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { v7 as uuidv7 } from 'uuid';
import { Unaccepted } from '../../../src/scan/pending/accepted-scans.js';
import { type ContentStore, type LeftContents, openContentStore } from '../../../src/scan/pending/content-store.js';
import { deferred } from '../../fixtures/deferred.js';
import { temporaryFolder } from '../../fixtures/folder.js';

const MIB = 1024 * 1024;
const key = randomBytes(32);
const options = { key, answerMs: 60_000, placeWaitMs: 60_000 };
const owner = { onWritten: () => undefined, onUnwritable: () => undefined };
const full = { code: 'unavailable', reason: 'asyncStoreFull' };
const notKept = { code: 'unavailable', reason: 'contentNotKept' };

async function put(store: ContentStore, account: string, bytes: number): Promise<string> {
  const id = uuidv7();
  const arriving = store.begin(id, account, owner);
  try {
    arriving.append(Buffer.alloc(bytes));
  } catch (error) {
    await arriving.drop();
    throw error;
  }
  await arriving.keep();
  return id;
}

t.test('one account leaves a quarter to others, all together have the bound, and what goes makes room', async (t) => {
  const store = await openContentStore({ ...options, directory: temporaryFolder(t), limitBytes: 8 * MIB });
  t.teardown(() => store.close());
  const first = await put(store, 'a', 5 * MIB);
  await t.rejects(put(store, 'a', MIB), full);
  await put(store, 'b', 2 * MIB);
  await t.rejects(put(store, 'c', 2 * MIB), full);
  t.ok(store.bytes < 8 * MIB, 'what was refused has left nothing');
  await store.remove(first);
  await put(store, 'c', 2 * MIB);
});

t.test('a content that can not be removed keeps its room until it is', async (t) => {
  const directory = temporaryFolder(t);
  const store = await openContentStore({ ...options, directory, limitBytes: 8 * MIB });
  t.teardown(() => store.close());
  const id = await put(store, 'a', MIB);
  const found = readdirSync(directory, { recursive: true, encoding: 'utf8' }).find((name) => name.endsWith(id));
  const path = join(directory, found ?? '');
  rmSync(path);
  // A folder can't be unlinked.
  mkdirSync(path);
  const { bytes } = store;
  await t.rejects(store.remove(id));
  t.equal(store.bytes, bytes);
  rmdirSync(path);
  await store.remove(id);
  t.equal(store.bytes, 0);
});

t.test(
  'a folder that somebody has removed is made anew, of the same node, and nobody else takes it over',
  async (t) => {
    const directory = join(temporaryFolder(t), 'async');
    const store = await openContentStore({ ...options, directory, limitBytes: 8 * MIB });
    t.teardown(() => store.close());
    const begun = uuidv7();
    const arriving = store.begin(begun, 'a', owner);
    const lost = await put(store, 'a', 1);
    rmSync(directory, { recursive: true });
    await t.rejects(put(store, 'a', 1), notKept);
    await store.adopt(new Map());
    await t.rejects(arriving.keep(), notKept, 'what began in the folder that is gone is not accepted');
    await arriving.drop();
    const id = await put(store, 'a', 1);
    await store.remove(lost);
    const other = await openContentStore({ ...options, directory, limitBytes: 8 * MIB });
    t.teardown(() => other.close());
    t.equal(other.nodeId, store.nodeId);
    const found: LeftContents = new Map();
    await other.adopt(found);
    t.same([...found], []);
    for await (const piece of store.read(id)) t.equal(piece.length, 1);
  },
);

t.test('a folder that is away for a while stays with its process', async (t) => {
  const above = temporaryFolder(t);
  const directory = join(above, 'async');
  const store = await openContentStore({ ...options, directory, limitBytes: 8 * MIB });
  t.teardown(() => store.close());
  const id = await put(store, 'a', 1);
  renameSync(directory, join(above, 'away'));
  // Nothing can be made there: what is below is not there, or can't be asked for.
  for (const block of [() => symlinkSync(join(above, 'nowhere'), directory), () => writeFileSync(directory, '')]) {
    block();
    await t.rejects(store.adopt(new Map()));
    rmSync(directory);
  }
  renameSync(join(above, 'away'), directory);
  const other = await openContentStore({ ...options, directory, limitBytes: 8 * MIB });
  t.teardown(() => other.close());
  const found: LeftContents = new Map();
  await other.adopt(found);
  t.same([...found], [], 'another process leaves it alone');
  for await (const piece of store.read(id)) t.equal(piece.length, 1);
});

t.test('contents that arrive at once are bounded, and the next ones wait for a place', async (t) => {
  const store = await openContentStore({
    ...options,
    directory: temporaryFolder(t),
    limitBytes: 64 * MIB,
    placeWaitMs: 200,
  });
  t.teardown(() => store.close());
  const begun: string[] = [];
  const arrive = (account: string) => {
    const left = deferred<void>();
    const over = store.inTurn(account, () => {
      begun.push(account);
      return left.promise;
    });
    return { over, left };
  };
  const first = Array.from({ length: 48 }, () => arrive('a'));
  const waiting = arrive('a');
  t.equal(begun.length, 48);
  const others = Array.from({ length: 16 }, () => arrive('b'));
  t.equal(begun.length, 64);
  others[0]?.left.resolve();
  await others[0]?.over;
  t.equal(begun.length, 64, 'a quarter is kept for others');
  first[0]?.left.resolve();
  await first[0]?.over;
  t.strictSame(begun.slice(64), ['a']);
  const late = [arrive('a'), arrive('c'), arrive('d')];
  t.strictSame(begun.slice(65), ['c']);
  const refused = await Promise.allSettled([late[0]?.over, late[2]?.over]);
  t.match(refused, [{ reason: { reason: 'uploadsBusy' } }, { reason: { reason: 'uploadsBusy' } }]);
  for (const one of [...first, ...others, ...late, waiting]) one.left.resolve();
  await Promise.all([...first, ...others, waiting, late[1]].map((one) => one?.over));
});

t.test('the next process of the same folder takes over what is there, one that lives keeps its own', async (t) => {
  const directory = temporaryFolder(t);
  const open = () => openContentStore({ ...options, directory, limitBytes: 8 * MIB });
  const one = await open();
  const other = await open();
  t.equal(one.nodeId, other.nodeId);
  const id = await put(one, 'a', 3 * MIB);
  const found: LeftContents = new Map();
  await other.adopt(found);
  t.equal(found.size, 0);
  t.ok(other.isAnywhere(id));
  await one.close();
  await other.adopt(found);
  t.strictSame([...found.keys()], [id]);
  other.keep(id, 'a', found.get(id) ?? 0);
  await t.rejects(put(other, 'a', 4 * MIB), full, 'it counts');
  let bytes = 0;
  for await (const piece of other.read(id)) bytes += piece.length;
  t.equal(bytes, 3 * MIB);
  await other.remove(id);
  t.notOk(other.isAnywhere(id));
  await other.close();
  t.strictSame(readdirSync(directory), ['node']);
});

t.test('contents that end while they are taken over leave no folder behind that nobody takes over', async (t) => {
  const directory = temporaryFolder(t);
  const open = () => openContentStore({ ...options, directory, limitBytes: 8 * MIB });
  const one = await open();
  const other = await open();
  const ids: string[] = [];
  while (ids.length < 50) ids.push(await put(one, 'a', 100));
  await one.close();
  const found: LeftContents = new Map();
  let isOver = false;
  const adopted = other.adopt(found).finally(() => {
    isOver = true;
  });
  while (!isOver) await Promise.all(ids.map((id) => other.remove(id)));
  await adopted;
  t.equal(found.size, ids.length);
  await Promise.all(ids.map((id) => other.remove(id)));
  await other.close();
  t.strictSame(readdirSync(directory), ['node']);
});

t.test('what was not accepted is taken away as soon as the database can be asked, once', async (t) => {
  const directory = temporaryFolder(t);
  const store = await openContentStore({ ...options, directory, limitBytes: 8 * MIB });
  const removed: string[] = [];
  let isDown = true;
  const unaccepted = new Unaccepted({
    async remove(id) {
      if (isDown) throw new Error('The database is away');
      removed.push(id);
    },
  });
  const ids = [uuidv7(), uuidv7()];
  for (const id of ids) {
    const content = store.begin(id, 'a', owner);
    content.append(Buffer.alloc(1000));
    await content.keep();
    unaccepted.add(id, content);
  }
  await t.rejects(unaccepted.remove(), /is away/);
  t.ok(
    ids.every((id) => store.isAnywhere(id)),
    'its row may be there, and the next process would scan it',
  );
  isDown = false;
  await unaccepted.remove();
  t.strictSame(removed, ids);
  t.notOk(ids.some((id) => store.isAnywhere(id)));
  t.equal(store.bytes, 0);
  await unaccepted.remove();
  t.strictSame(removed, ids, 'once');
  await store.close();
});
