// Gates that are looked for outside of libclamav, in what it gives to its matcher: wherever they lie, and also where that can't be read along.
import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import {
  defaultEngineLimits,
  type GateFiles,
  gateStatistics,
  type PreparedEngine,
  scanBuffer,
} from '../../src/engine/clamav/addon.js';
import { prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { readAnswer, usualPolicy } from '../../src/engine/verdict.js';
import { zip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { generator } from '../fixtures/random.js';
import { databaseFolder, loadEngine } from './engine.js';

type Test = Parameters<typeof temporaryFolder>[0];

const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');
/** libclamav looks at so many bytes at a time, and at some of them twice. */
const PIECE = 131_072;
const PARTS = ['qhvzk to begin with', 'something wxyjq', 'the end of it, which has more bytes'] as const;
const LINES = [1, 2].map((target) => {
  const patterns = PARTS.map((part) => hex(`${target}${part}`));
  return `Test.Kind${target};Engine:81-255,Target:${target};0&1&2;${patterns.join(';')}`;
});
/** What the two kinds of files begin with. */
const BEGINNINGS = [Buffer.from('MZ'), Buffer.from('d0cf11e0a1b11ae1', 'hex')];

interface Place {
  readonly folder: string;
  readonly store: string;
}

function place(t: Test): Place {
  return { folder: databaseFolder(t, { 'a.ldb': `${LINES.join('\n')}\n` }), store: temporaryFolder(t) };
}

async function load(
  t: Test,
  { folder, store }: Place,
  singlePass = true,
): Promise<{ readonly files: GateFiles; readonly engine: PreparedEngine }> {
  const made = (await prepareGates([folder], store, { prior: null })).options;
  if (made.gates === null) throw new Error('There are no gates');
  const options = { temporaryDirectory: temporaryFolder(t), limits: defaultEngineLimits, ...made, singlePass };
  return { files: made.gates, engine: await loadEngine({ directories: [folder], ...options }) };
}

/** A file of the kind with each text at its place, between zeros, which libclamav would rather skip, or letters. */
function content(kind: number, places: readonly (readonly [text: string, at: number])[], filler: number): Buffer {
  const bytes = Buffer.alloc(PIECE * 3, filler);
  BEGINNINGS[kind]?.copy(bytes);
  for (const [text, at] of places) bytes.write(`${kind + 1}${text}`, at, 'latin1');
  return bytes;
}

function kindOf(bytes: Uint8Array): string {
  return readAnswer(scanBuffer(bytes), usualPolicy).kind;
}

for (const singlePass of [true, false]) {
  t.test(`they are found wherever they lie, ${singlePass ? 'in one pass' : 'in two'}`, async (t) => {
    const { files, engine } = await load(t, place(t), singlePass);
    t.equal(readFileSync(files.literals, 'latin1').match(/^PUA/gm)?.length, 4, 'all but the longest of each kind');
    t.strictSame(engine.warnings, []);
    const random = generator(11);
    const end = PIECE * 3;
    const ends = PARTS.map((part) => end - part.length - 1);
    for (const kind of [0, 1]) {
      for (let round = 0; round < 40; round += 1) {
        // In different pieces, most over the edge of one.
        const places = PARTS.map((part, index) => {
          const edge = PIECE * (1 + (round % 2)) - Math.floor(random() * (part.length + 2)) - index * 100;
          return [part, round < 20 ? edge : 1_000 + Math.floor(random() * (end - 2_000))] as const;
        });
        const bytes = content(kind, places, round % 3 === 0 ? 0x61 : 0);
        const isWhole = places.every(([part, at]) => bytes.includes(`${kind + 1}${part}`, at));
        if (!isWhole) continue;
        t.equal(kindOf(bytes), 'infected', JSON.stringify(places));
        t.equal(kindOf(zip([{ name: 'a', content: bytes }])), 'infected', 'in an archive');
      }
      const atTheEnd = content(
        kind,
        [
          [PARTS[0], 20],
          [PARTS[1], 60],
          [PARTS[2], ends[2] ?? 0],
        ],
        0,
      );
      t.equal(kindOf(atTheEnd), 'infected', 'the last bytes');
      t.equal(kindOf(atTheEnd.subarray(0, -1)), 'clean', 'all but the last byte');
    }
  });
}

t.test('a share looks only where all have hit, each in a file of its kind', async (t) => {
  const { engine } = await load(t, place(t));
  t.strictSame(engine.warnings, []);
  for (const missing of [0, 1, 2]) {
    const places = PARTS.flatMap((part, index) => (index === missing ? [] : [[part, 200 * (index + 1)] as const]));
    t.equal(kindOf(content(0, places, 0)), 'clean');
  }
  const all = PARTS.map((part, index) => [part, 200 * (index + 1)] as const);
  const other = content(0, all, 0);
  BEGINNINGS[1]?.copy(other);
  t.equal(kindOf(other), 'clean', 'those of another kind');
  t.match(gateStatistics(), { secondLooks: 0 });
  t.equal(kindOf(content(0, all, 0)), 'infected');
  t.match(gateStatistics(), { secondLooks: 1, inVain: 0 });
});

t.test('a short time for scans says nothing of what can be read along', async (t) => {
  const { folder, store } = place(t);
  const made = (await prepareGates([folder], store, { prior: null })).options;
  const limits = { ...defaultEngineLimits, maxScanTimeMs: 1 };
  const { warnings } = await loadEngine({
    directories: [folder],
    temporaryDirectory: temporaryFolder(t),
    limits,
    ...made,
  });
  t.strictSame(warnings, []);
});

t.test('where libclamav can’t be read along it looks for all of them, which is said', async (t) => {
  const where = place(t);
  const { files } = await load(t, where);
  const text = readFileSync(files.literals, 'latin1');
  // No file that a sample can begin like is of this kind.
  const [first = ''] = /^PUA.*$/m.exec(text) ?? [];
  writeFileSync(files.literals, text.replace(first, first.replace(/:[12]:/, ':11:')), 'latin1');
  const { engine } = await load(t, where);
  t.match(engine.warnings, [/^What libclamav matches can't be read along/]);
  const other = first.includes(':1:') ? 1 : 0;
  t.equal(
    kindOf(
      content(
        other,
        PARTS.map((part, index) => [part, 200 * (index + 1)] as const),
        0,
      ),
    ),
    'infected',
  );
});

t.test('a file of them that is cut off, or has something else, is refused', async (t) => {
  const where = place(t);
  const { files } = await load(t, where);
  const text = readFileSync(files.literals, 'latin1');
  const lines = text.trimEnd().split('\n');
  writeFileSync(files.literals, `${lines.slice(0, -1).join('\n')}\n`, 'latin1');
  await t.rejects(load(t, where), { message: /^Gates are missing in / });
  const good = lines.at(-1) ?? '';
  for (const bad of [
    good.slice(0, -1),
    good.replace(':*:', ':0:'),
    good.replace('PUA.Sluice.Gate.', 'Other.'),
    `${good}??`,
  ]) {
    writeFileSync(files.literals, `${[...lines.slice(0, -1), bad].join('\n')}\n`, 'latin1');
    await t.rejects(load(t, where), { message: /^Cannot read the gate / }, bad);
  }
  for (const short of [':1:*:0102030405', ':16:*:010203040506']) {
    writeFileSync(files.literals, `PUA.Sluice.Gate.0.1${short}\n`, 'latin1');
    await t.rejects(load(t, where), { message: /^Cannot read the gate / }, short);
  }
});
