// Engines of second looks that load on two threads at one time: their progress is one number, and the failure of one is the failure of the load.
import { appendFileSync } from 'node:fs';
import t from 'tap';
import {
  defaultEngineLimits,
  engineInfo,
  type GateFiles,
  type PreparedEngine,
  scanBuffer,
} from '../../src/engine/clamav/addon.js';
import { prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { bodySignature, databaseFolder, load, loadEngine } from './engine.js';

type Test = Parameters<typeof temporaryFolder>[0];

const HASHES = 50_000;
const LOGICAL = 2_000;
const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');
const hash = (index: number): string => `${index.toString(16).padStart(64, '0')}:${1e6 + index}:Test.Hash:73\n`;
/** All lines are of one length, as those that are expected. */
const logical = (index: number): string =>
  `Test.${1e6 + index};Engine:81-255,Target:0;0;${hex(`literal ${1e6 + index * 7919} of its own`)}\n`;
const DATABASES = {
  'a.hsb': Array.from({ length: HASHES }, (_, index) => hash(index)).join(''),
  'a.ldb': Array.from({ length: LOGICAL }, (_, index) => logical(index)).join(''),
};

interface Load {
  readonly info: PreparedEngine;
  readonly steps: readonly number[];
}

async function loadAndWatch(t: Test, directory: string, gates: GateFiles | null): Promise<Load> {
  const steps: number[] = [];
  const temporaryDirectory = temporaryFolder(t);
  const options = { directories: [directory], temporaryDirectory, limits: defaultEngineLimits, gates };
  const info = await loadEngine(options, (fraction) => steps.push(fraction));
  return { info, steps };
}

async function gatesOf(t: Test, directory: string): Promise<GateFiles> {
  const { gates: files } = (await prepareGates([directory], temporaryFolder(t), { prior: null })).options;
  if (files === null || files.shares.length < 2) throw new Error('these signatures have no two shares');
  return files;
}

for (const kind of ['one engine', 'engines of shares'] as const) {
  t.test(`the progress of ${kind} rises to 1 before the promise resolves`, async (t) => {
    const folder = databaseFolder(t, DATABASES);
    const { info, steps } = await loadAndWatch(t, folder, kind === 'one engine' ? null : await gatesOf(t, folder));
    t.equal(info.signatureCount, HASHES + LOGICAL);
    for (const [index, step] of steps.entries()) t.ok(step > (steps[index - 1] ?? 0), `step ${index} is ${step}`);
    t.equal(steps.at(-1), 1);
    t.ok(steps.length <= 3 + info.loadMillis / 50, 'at a bounded rate');
  });
}

t.test('each engine counts for what it takes', async (t) => {
  const folder = databaseFolder(t, DATABASES);
  const all = HASHES + LOGICAL;
  // The first step comes at once.
  const [one = 0] = (await loadAndWatch(t, folder, null)).steps;
  const [first = 0] = (await loadAndWatch(t, folder, await gatesOf(t, folder))).steps;
  t.ok(Math.abs((one * 7 * all) / (6 * 1024) - 1) < 0.01, `${one} of one engine`);
  t.ok(Math.abs((first * 7 * (all + 20 * LOGICAL)) / (6 * 1024) - 1) < 0.01, `${first} beside shares`);
});

t.test('a share that cannot be loaded is the failure of the load, and the old engine goes on', async (t) => {
  await load(t, [databaseFolder(t, { 'a.ndb': bodySignature('Test.Old', 'a mark of this test') })]);
  const before = engineInfo();
  const folder = databaseFolder(t, DATABASES);
  for (const damaged of [[0], [1], [0, 1]]) {
    const gates = await gatesOf(t, folder);
    for (const share of damaged) appendFileSync(gates.shares[share] ?? '', 'not a signature\n');
    const path = gates.shares[damaged[0] ?? 0] ?? '';
    await t.rejects(loadAndWatch(t, folder, gates), {
      name: 'EngineLoadError',
      message: new RegExp(`^Cannot load ${path}: `),
    });
  }
  t.same(engineInfo(), before);
  t.equal(scanBuffer(Buffer.from('a mark of this test')).virusName, 'Test.Old.UNOFFICIAL');
});
