// Gates: engines that look only where a gate hits say what one engine with all signatures says.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { defaultEngineLimits, type EngineAnswer, gateStatistics, scanBuffer } from '../../src/engine/clamav/addon.js';
import { learnNoise } from '../../src/engine/clamav/gates/noise.js';
import { type PreparedGates, type PrepareOptions, prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { nameOf, parseSignature } from '../../src/engine/clamav/gates/signature.js';
import { readAnswer, usualPolicy, type Verdict } from '../../src/engine/verdict.js';
import { bundle, mail, tar, zip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { generator } from '../fixtures/random.js';
import { satisfying, spoiled } from '../fixtures/satisfying.js';
import { bodySignature, databaseFolder, loadEngine } from './engine.js';

type Test = Parameters<typeof temporaryFolder>[0];

const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');
const ENGINE = 'Engine:81-255';

/** Of every form there is, and some that have no gate. */
const SIGNATURES = [
  `Test.Both;${ENGINE},Target:0;0&1;${hex('first of both')};${hex('second of both')}`,
  `Test.Either;${ENGINE},Target:0;0|1;${hex('one of either')};${hex('other of either')}`,
  `Test.Often;${ENGINE},Target:0;0>3;${hex('often often')}`,
  `Test.Exactly;${ENGINE},Target:0;0=2;${hex('twice exactly')}`,
  `Test.Block;${ENGINE},Target:0;(0|1|2)>2,2;${hex('block part a')};${hex('block part b')};${hex('block part c')}`,
  `Test.Without;${ENGINE},Target:0;0&(1=0);${hex('with this alone')};${hex('and never this')}`,
  `Test.Fewer;${ENGINE},Target:0;0&(1<3);${hex('with a few of')};${hex('those few')}`,
  `Test.Wide;${ENGINE},Target:0;0;${hex('wide words')}::w`,
  `Test.WideOrNot;${ENGINE},Target:0;0;${hex('wide or not')}::wa`,
  `Test.Word;${ENGINE},Target:0;0;${hex('whole word')}::f`,
  `Test.Case;${ENGINE},Target:0;0;${hex('12345 in any case')}::i`,
  `Test.CaseAlone;${ENGINE},Target:0;0;${hex('letters')}::i`,
  `Test.CaseWide;${ENGINE},Target:0;0;${hex('wide spell')}::wi`,
  `Test.CaseShort;${ENGINE},Target:0;0;${hex('cases')}::i`,
  `Test.Open;${ENGINE},Target:0;0;${hex('op')}??${hex('e')}(${hex('n')}|${hex('m')})${hex('ed')}{3}${hex('out')}`,
  `Test.Wild;${ENGINE},Target:0;0;${hex('wild')}??{2-5}${hex('cards are here')}*${hex('and there')}`,
  `Test.Choice;${ENGINE},Target:0;0;${hex('choice of ')}(${hex('one')}|${hex('other')})${hex(' thing')}`,
  `Test.Place;${ENGINE},Target:0;0;7:${hex('seventh place')}`,
  `Test.Pcre;${ENGINE},Target:0;1;${hex('trigger of pcre')};0/found[0-9]+;and/`,
  `Test.Compare;${ENGINE},Target:0;0&1;${hex('compared')};0(>>8#ib2#=4660)`,
  `Test.Program;${ENGINE},Target:1;0&1;EP+0:${hex('entry point')};${hex('in a program')}`,
  `Test.Section;${ENGINE},Target:1;0;S0+20:${hex('in a section')}`,
  `Test.Linux;${ENGINE},Target:6;0&1;${hex('in an elf file')};${hex('twice in an elf')}`,
  `Test.Page;${ENGINE},Target:3;0&1;${hex('<p>in a page')};${hex('of html')}`,
  `Test.Text;${ENGINE},Target:7;0&1;${hex('in plain text')};${hex('of ascii')}`,
  `Test.Document;${ENGINE},Target:2;0;${hex('in a document')}`,
  `Test.Size;${ENGINE},FileSize:5000-9000,Target:0;0;${hex('of some size')}`,
  `Test.Inside;${ENGINE},Container:CL_TYPE_ZIP,Target:0;0;${hex('inside of a zip')}`,
  `Test.Old;Engine:1-2,Target:0;0;${hex('for old engines')}`,
  `Test.Mail;${ENGINE},Container:CL_TYPE_MAIL,Target:0;1;0:504b;0/name_in_zip[.]txt/`,
  `Test.Twin;${ENGINE},Target:0;0;${hex('the first twin')}`,
  `Test.Twin;${ENGINE},Target:0;0;${hex('the second twin')}`,
];

/** Extended ones, for programs and documents. */
const EXTENDED = [
  `Test.Extended:1:*:${hex('a program of an extended one')}`,
  `Test.Entered:1:EP+0:${hex('where an extended one begins')}`,
  `Test.Opened:1:*:${hex('an open')}??(${hex('e')}|${hex('f')})${hex('nded one')}{2-5}${hex('with more behind')}`,
  `Test.Written:2:*:${hex('a document of an extended one')}`,
  `Test.Levels:1:S0+8,16:${hex('for engines of some levels')}:81:255`,
  `Test.Outdated:1:*:${hex('for engines of other levels')}:1:2`,
];

/** They stay in the engine that sees every content. */
const UNGATED = [
  `Test.Body:0:*:${hex('a plain body')}`,
  `Test.Hypertext:3:*:${hex('<p>a page of an extended one')}`,
  // Has the name of a logical one.
  `Test.Exactly:1:*:${hex('a program like another one')}`,
];

function parsed(line: string) {
  const found = parseSignature(line);
  if (!found.understood) throw new Error(`${line}: ${found.reason}`);
  return found.signature;
}

async function loadPlain(t: Test, directories: readonly string[]): Promise<number> {
  const options = { directories, temporaryDirectory: temporaryFolder(t), limits: defaultEngineLimits };
  return (await loadEngine(options)).signatureCount;
}

async function loadGated(
  t: Test,
  directories: readonly string[],
  store = temporaryFolder(t),
  singlePass = true,
  // Most signatures here are made of words, which clean content has.
  known: PrepareOptions = { prior: null },
): Promise<PreparedGates & { count: number }> {
  const gates = await prepareGates(directories, store, known);
  const options = {
    directories,
    temporaryDirectory: temporaryFolder(t),
    limits: defaultEngineLimits,
    ...gates.options,
    singlePass,
  };
  return { ...gates, count: (await loadEngine(options)).signatureCount };
}

function verdictOf(answer: EngineAnswer): Verdict {
  return readAnswer(answer, usualPolicy);
}

/** What each signature matches, that spoiled, and both inside of others. */
function contents(): Buffer[] {
  const random = generator(1);
  const made = [...SIGNATURES, ...EXTENDED, ...UNGATED].flatMap(
    (line) => satisfying(parsed(line), line)?.content ?? [],
  );
  const plain = [
    ...made,
    ...made.map((content) => spoiled(content, random)),
    Buffer.from('trigger of pcre and found12;and more'),
    Buffer.from('trigger of pcre and nothing'),
    Buffer.from('compared\x12\x34', 'latin1'),
    Buffer.from('compared\x12\x35', 'latin1'),
    Buffer.from('with this alone and never this'),
    Buffer.from('LeTTers are neither big nor small'),
    Buffer.from('12345 IN ANY CASE'),
    Buffer.from('LEtteRs in any case'),
    Buffer.from('wIde SpeLl', 'utf16le'),
    Buffer.from('no CASES at all'),
    Buffer.from('op-emed123out'),
    Buffer.from('op-eled123out'),
    Buffer.from('first of both without the other'),
  ];
  const inZip = plain.map((content) => zip([{ name: 'a', content }]));
  const named = zip([{ name: 'name_in_zip.txt', content: Buffer.from('x') }]);
  const attached = mail(named);
  return [
    ...plain,
    ...inZip,
    ...plain.map((content) => gzipSync(content)),
    ...plain.map((content) => tar([{ name: 'a', content }])),
    ...plain.map((content) => mail(content)),
    named,
    attached,
    mail(inZip[0] ?? named),
    // libclamav sees text and HTML at first.
    Buffer.concat([Buffer.from('words of plain text\n'.repeat(160)), attached]),
    Buffer.concat([Buffer.from('<html><body>a line</body></html>\n'), attached]),
    zip([{ name: 'mail.eml', content: attached }]),
  ];
}

t.test('a second look that runs out of time is incomplete, and no match', async (t) => {
  const folder = databaseFolder(t, { 'a.ldb': `${SIGNATURES.join('\n')}\n` });
  const gates = await prepareGates([folder], temporaryFolder(t), { prior: null });
  // A gate hits, and no signature matches. Each member is some work for both looks.
  const members = Array.from({ length: 40 }, (_, index) => ({
    name: String(index),
    content: Buffer.from(`${index} often often ${'without the other '.repeat(6_000)}`),
  }));
  const content = zip(members);
  const seen = new Set<string>();
  // Where the limit falls depends on the machine: before the second look, within it, and behind it.
  const clean = JSON.stringify({ kind: 'clean', encrypted: false });
  for (let maxScanTimeMs = 8; !seen.has(clean); maxScanTimeMs += Math.ceil(maxScanTimeMs / 8)) {
    await loadEngine({
      directories: [folder],
      temporaryDirectory: temporaryFolder(t),
      limits: { ...defaultEngineLimits, maxScanTimeMs },
      ...gates.options,
    });
    const verdict = verdictOf(scanBuffer(content));
    seen.add(verdict.kind === 'incomplete' ? verdict.reason : JSON.stringify(verdict));
  }
  seen.delete('engine limit exceeded: MaxScanTime');
  t.strictSame([...seen], [clean]);
});

for (const singlePass of [true, false]) {
  t.test(`the verdicts are those of one engine, in ${singlePass ? 'one pass' : 'two passes'}`, async (t) => {
    const folder = databaseFolder(t, {
      'a.ldb': `${SIGNATURES.join('\n')}\n`,
      'b.ndb': `${[...EXTENDED, ...UNGATED].join('\n')}\n`,
    });
    const all = [...contents(), Buffer.from('a plain body, first of both, second of both')];
    const count = await loadPlain(t, [folder]);
    const before = all.map((content) => verdictOf(scanBuffer(content)));
    const gated = await loadGated(t, [folder], undefined, singlePass);
    const after = all.map((content) => verdictOf(scanBuffer(content)));
    t.equal(gated.count, count, 'as many signatures as before');
    for (const [index, verdict] of before.entries())
      t.same(after[index], verdict, all[index]?.toString('latin1', 0, 80) ?? '');
    const found = new Set(before.map((verdict) => (verdict.kind === 'infected' ? verdict.virusName : '')));
    const names = [...SIGNATURES, ...EXTENDED, ...UNGATED].map((line) => `${nameOf(line)}.UNOFFICIAL`);
    // Those for other engines are for nobody here, and that inside of a zip has to be met there.
    t.same(
      names.filter((name) => !found.has(name)),
      ['Test.Old.UNOFFICIAL', 'Test.Outdated.UNOFFICIAL'],
      'every signature was matched',
    );
    t.match(gated.facts, { gated: 34, kept: { 'no gate': 1, 'same name': 4, 'few of a kind': 2 } });
    const statistics = gateStatistics();
    t.equal(statistics?.scans, all.length + 1, 'the self-test counts too');
    t.ok((statistics?.secondLooks ?? 0) > (statistics?.inVain ?? 0));
  });
}

t.test('names are those that the databases have, and what is ignored stays so', async (t) => {
  const extended = ['Official', 'Ignored'].map((name) => `Test.${name}Too:1:*:${hex(`an extended one, ${name}`)}`);
  const official = `Test.Official;${ENGINE},Target:0;0;${hex('an official one')}\nTest.Ignored;${ENGINE},Target:0;0;${hex('an ignored one')}\n`;
  const folder = databaseFolder(t, {
    'a.cud': bundle({ 'a.ldb': official, 'a.ndb': `${extended.join('\n')}\n` }),
    'b.ldb': `Test.Own;${ENGINE},Target:0;0;${hex('one of our own')}\n`,
    'c.ign2': 'Test.Ignored\nTest.IgnoredToo\n',
  });
  const texts = [
    ...['an official one', 'an ignored one', 'one of our own'].map((text) => Buffer.from(`  ${text} `)),
    ...extended.map((line) => satisfying(parsed(line), line)?.content ?? Buffer.alloc(0)),
  ];
  await loadPlain(t, [folder]);
  const before = texts.map((text) => verdictOf(scanBuffer(text)));
  const { facts } = await loadGated(t, [folder]);
  t.equal(facts.gated, 5);
  t.same(
    texts.map((text) => verdictOf(scanBuffer(text))),
    before,
  );
  t.same(
    before.map((verdict) => (verdict.kind === 'infected' ? verdict.virusName : null)),
    ['Test.Official.UNOFFICIAL', null, 'Test.Own.UNOFFICIAL', 'Test.OfficialToo.UNOFFICIAL', null],
  );
});

t.test('signatures for mails alone need no gate, and those without any need no second engine', async (t) => {
  const named = zip([{ name: 'name_in_zip.txt', content: Buffer.from('x') }]);
  const forMails = SIGNATURES.filter((line) => line.startsWith('Test.Mail'));
  t.match((await loadGated(t, [databaseFolder(t, { 'a.ldb': `${forMails.join('\n')}\n` })])).facts, {
    gated: 1,
    gates: 0,
  });
  t.equal(verdictOf(scanBuffer(mail(named))).kind, 'infected');
  t.equal(verdictOf(scanBuffer(named)).kind, 'clean');
  const looked = gateStatistics()?.secondLooks;
  t.equal(verdictOf(scanBuffer(mail(Buffer.from('%!PS-Adobe-3.0\n(words) show\n')))).kind, 'clean');
  t.equal(
    gateStatistics()?.secondLooks,
    looked,
    'libclamav takes nothing out of PostScript that begins with anything else',
  );
  const without = `Test.Letters;${ENGINE},Target:0;0;${hex('vowel')}::i\n`;
  t.equal((await loadGated(t, [databaseFolder(t, { 'a.ldb': without })])).options.gates, null);
  t.equal(gateStatistics(), null);
  t.equal(verdictOf(scanBuffer(Buffer.from('some VOWEL here'))).kind, 'infected');
});

t.test('files that are known to be harmless stay so', async (t) => {
  const content = Buffer.from('first of both, second of both, harmless');
  const { createHash } = await import('node:crypto');
  const md5 = createHash('md5').update(content).digest('hex');
  const folder = databaseFolder(t, {
    'a.ldb': `${SIGNATURES[0]}\n`,
    'b.fp': `${md5}:${content.length}:Test.Harmless\n`,
  });
  await loadGated(t, [folder]);
  t.equal(verdictOf(scanBuffer(content)).kind, 'clean');
  t.equal(verdictOf(scanBuffer(Buffer.concat([content, Buffer.from('!')]))).kind, 'infected');
});

t.test('a gate that hits in vain is given up at the next load', async (t) => {
  const store = temporaryFolder(t);
  const parts = ['Xk2#qZ9!vWaJ0&bL~eRn', 'Zm7$sH4@wC6=dQfG1*iUoKy'];
  const folder = databaseFolder(t, { 'a.ldb': `Test.A;${ENGINE},Target:0;0&1;${parts.map(hex).join(';')}\n` });
  const first = await loadGated(t, [folder], store, true, {});
  const noisy = Buffer.from(first.keys[0]?.split(':')[2] ?? '', 'hex');
  t.equal(verdictOf(scanBuffer(noisy)).kind, 'clean');
  t.match(gateStatistics(), { secondLooks: 1, inVain: 1, noisy: [[0, 1]] });
  t.equal(await learnNoise(store, first.keys, { leastTimes: 2, most: 10 }), 0, 'once is not yet often');
  t.ok(await learnNoise(store, first.keys, { leastTimes: 1, most: 10 }));
  t.equal(await learnNoise(store, first.keys, { leastTimes: 1, most: 10 }), 0, 'it is known');
  const second = await loadGated(t, [folder], store, true, {});
  t.not(second.keys[0], first.keys[0], 'the other subsignature');
  scanBuffer(noisy);
  t.match(gateStatistics(), { secondLooks: 0, inVain: 0, noisy: [] });
  t.equal(verdictOf(scanBuffer(Buffer.from(parts.join(', ')))).kind, 'infected');
});

t.test('where two gates are needed a share looks only where both have hit, and the first one is blamed', async (t) => {
  const folder = databaseFolder(t, {
    'a.ldb': `Test.Pair;${ENGINE},Target:0;0&1;${hex('gxqkzpr')};${hex('wbvmjt')}\n`,
  });
  const { keys } = await loadGated(t, [folder]);
  for (const part of ['gxqkzpr', 'wbvmjt', 'gxqkzpr and gxqkzpr']) {
    t.equal(verdictOf(scanBuffer(Buffer.from(part))).kind, 'clean');
  }
  t.match(gateStatistics(), { secondLooks: 0 });
  t.equal(verdictOf(scanBuffer(Buffer.from('wbvmjt, gxqkzpr'))).kind, 'infected');
  t.match(gateStatistics(), { secondLooks: 1, inVain: 0 });
  const apart = ['gxqkzpr', 'wbvmjt'].map((text) => ({ name: 'a.gz', content: gzipSync(text) }));
  t.equal(verdictOf(scanBuffer(zip(apart))).kind, 'clean', 'each in a layer of its own');
  const first = keys.indexOf(`0:*:${hex('gxqkzpr')}`);
  t.match(gateStatistics(), { secondLooks: 2, inVain: 1, noisy: [[first, 1]] });
});

t.test('conditions that are cut off or name what is not there are refused', async (t) => {
  const folder = databaseFolder(t, {
    'a.ldb': `Test.Pair;${ENGINE},Target:0;0&1;${hex('gxqkzpr')};${hex('wbvmjt')}\n`,
  });
  const store = temporaryFolder(t);
  const files = (await loadGated(t, [folder], store)).options.gates;
  const path = files?.conditions ?? '';
  const whole = readFileSync(path, 'utf8');
  t.equal(whole, '0 0 1\nend\n');
  const bad = [
    '0 0 1',
    '0 0',
    '0 0 1\nen',
    '0 0 2\nend\n',
    '1 0 1\nend\n',
    '0 0 x\nend\n',
    '0 0\nend\n',
    '0,1 0\nend\n',
  ];
  for (const text of ['', ...bad, '0 0 1 0 1 0 1 0 1 0\nend\n', '0 0 1 \nend\n', '0 0 1,\nend\n']) {
    writeFileSync(path, text);
    await t.rejects(loadGated(t, [folder], store), { message: /^Cannot read the conditions of gates in / }, text);
  }
});

t.test('gates that are cut off are refused', async (t) => {
  const folder = databaseFolder(t, { 'a.ldb': `${SIGNATURES.join('\n')}\n` });
  const store = temporaryFolder(t);
  const files = (await loadGated(t, [folder], store)).options.gates;
  const path = files?.gates ?? '';
  const lines = readFileSync(path, 'latin1').trimEnd().split('\n');
  writeFileSync(path, `${lines.slice(0, -1).join('\n')}\n`, 'latin1');
  await t.rejects(loadGated(t, [folder], store), { message: /^(Gates are missing in |Cannot load .*literals)/ });
});

t.test('a hit of a gate beyond their count is none', async (t) => {
  const folder = databaseFolder(t, { 'a.ldb': `${SIGNATURES.slice(0, 2).join('\n')}\n` });
  const store = temporaryFolder(t);
  const { gates } = (await loadGated(t, [folder], store)).options;
  for (const path of [gates?.gates ?? '', gates?.literals ?? '']) {
    const text = readFileSync(path, 'latin1');
    writeFileSync(path, text.replaceAll(/(?<=Gate\.)\d+/g, '4000000000'), 'latin1');
  }
  await loadGated(t, [folder], store);
  for (const text of ['first of both, second of both', 'one of either, other of either']) {
    t.equal(verdictOf(scanBuffer(Buffer.from(text))).kind, 'clean');
  }
  t.match(gateStatistics(), { secondLooks: 0, noisy: [] });
});

t.test('a signature that is called like a gate is refused, and one that changed meanwhile', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('PUA.Sluice.Gate.1.1', 'words') });
  await t.rejects(loadGated(t, [folder]), {
    name: 'EngineLoadError',
    message: /called like a gate: PUA.Sluice.Gate.1.1/,
  });
  const other = databaseFolder(t, { 'a.ldb': `${SIGNATURES[0]}\n` });
  const gates = await prepareGates([other], temporaryFolder(t), { prior: null });
  writeFileSync(join(other, 'a.ldb'), `${SIGNATURES[1]}\n`);
  const options = { directories: [other], temporaryDirectory: temporaryFolder(t), limits: defaultEngineLimits };
  await t.rejects(loadEngine({ ...options, ...gates.options }), { message: /changed while they were read/ });
});

t.test('the time of one scan is that of all looks, and what they leave out is reported', async (t) => {
  const folder = databaseFolder(t, { 'a.ldb': `${SIGNATURES.join('\n')}\n` });
  const gates = await prepareGates([folder], temporaryFolder(t), { prior: null });
  const limits = { ...defaultEngineLimits, maxScanTimeMs: 1 };
  await loadEngine({ directories: [folder], temporaryDirectory: temporaryFolder(t), limits, ...gates.options });
  // Long enough for the first look alone.
  const content = Buffer.concat([
    Buffer.from('first of both '),
    Buffer.alloc(30_000_000, 'some more '),
    Buffer.from('second of both'),
  ]);
  t.match(verdictOf(scanBuffer(content)), { kind: /infected|incomplete/ });
});

t.test('however many gates hit, each share looks again once', async (t) => {
  const part = (which: string, number: number): string => `${which} ${String(number).padStart(5, '0')} `;
  const line = (number: number, target: number): string =>
    `Test.Many-${number};${ENGINE},Target:${target};0&1;${hex(part('fed', number))};${hex(part('abc', number))}`;
  // For programs one share has what is likely, one the rest; one is for all else.
  const programs = Array.from({ length: 5_001 }, (_, index) => line(index, 1));
  const others = Array.from({ length: 20 }, (_, index) => line(10_000 + index, 0));
  const folder = databaseFolder(t, { 'a.ldb': `${[...programs, ...others].join('\n')}\n` });
  const files = (await loadGated(t, [folder])).options.gates;
  t.equal(files?.shares.length, 3);
  const made = satisfying(parsed(programs[0] ?? ''), programs[0] ?? '');
  const full = (numbers: readonly number[]): Buffer =>
    Buffer.concat([
      made?.content.subarray(0, 0x200) ?? Buffer.alloc(0),
      Buffer.from(numbers.map((number) => part('fed', number)).join('')),
    ]);
  const lookersAt = (content: Buffer, expected: string): number => {
    const before = gateStatistics()?.lookers ?? 0;
    t.equal(verdictOf(scanBuffer(content)).kind, expected);
    return (gateStatistics()?.lookers ?? 0) - before;
  };
  t.equal(lookersAt(full([1]), 'clean'), 1);
  t.equal(lookersAt(full([10_001]), 'clean'), 1);
  const all = full([...programs.keys(), ...others.map((_, index) => 10_000 + index)]);
  t.equal(lookersAt(full([...programs.keys()]), 'clean'), 2, 'both shares of programs');
  t.equal(lookersAt(all, 'clean'), 3, 'and one for all else');
  t.equal(lookersAt(Buffer.concat([all, Buffer.from(part('abc', 77))]), 'infected'), 3);
  t.equal(lookersAt(full([]), 'clean'), 0);
});

t.test('content that is full of gates is looked at, and found where it is to be found', async (t) => {
  const folder = databaseFolder(t, { 'a.ldb': `${SIGNATURES.join('\n')}\n` });
  const { keys } = await loadGated(t, [folder]);
  const all = Buffer.concat(keys.map((key) => Buffer.from(key.split(':')[2] ?? '', 'hex')));
  const flood = Buffer.concat(Array.from({ length: 2_000 }, () => all));
  t.equal(verdictOf(scanBuffer(Buffer.concat([flood, Buffer.from('first of both, second of both')]))).kind, 'infected');
  const number = keys.findIndex((key) => key.endsWith(hex('of both')));
  const [, , one = ''] = keys[number]?.split(':') ?? [];
  const clean = Buffer.concat(Array.from({ length: 20_000 }, () => Buffer.from(one, 'hex')));
  t.equal(verdictOf(scanBuffer(clean)).kind, 'clean');
  t.match(gateStatistics(), { inVain: 1, noisy: [[number, 1]] });
});
