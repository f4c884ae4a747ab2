// What is planned for a set of signatures: which are gated, by what, and who looks again.
import t from 'tap';
import { planGates, type Triggered } from '../../../../src/engine/clamav/gates/plan.js';
import { readPrior } from '../../../../src/engine/clamav/gates/prior.js';

const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');
const NONE = { programs: [], triggerNames: [], noisy: new Set<string>(), prior: null, onProgress: () => undefined };

function signature(name: string, subsignatures: readonly string[], attributes = 'Target:0'): string {
  const logic = subsignatures.map((_, index) => index).join('&');
  return `${name};Engine:81-255,${attributes};${logic};${subsignatures.join(';')}`;
}

function program(file: string, subsignatures: readonly string[]): Triggered {
  return { file, trigger: signature(`BC.${file}`, subsignatures) };
}

function literalsOf(lines: readonly string[], noisy: readonly string[] = []): string[] {
  return planGates(lines, { ...NONE, noisy: new Set(noisy) }).gates.map(({ gate }) =>
    Buffer.from(gate.pattern, 'hex').toString('latin1'),
  );
}

t.test('the gate is what is rarest, but nothing regular and nothing noisy', async (t) => {
  const [common, rare, counting] = [hex('aabbaabb'), hex('Xk2#qZ'), '000102030405060708090a0b0c0d0e0f'];
  const line = signature('Test.A', [common, rare, counting, '00'.repeat(20)]);
  t.same(literalsOf([line]), ['Xk2#qZ']);
  t.same(literalsOf([line], [`0:*:${rare}`]), [], 'what is left is in everything');
  t.same(
    literalsOf([signature('Test.B', [`EP+0:${'90'.repeat(8)}`], 'Target:1')]),
    ['\x90'.repeat(8)],
    'but not at one place',
  );
});

t.test('what clean content has is no gate, as far as it was counted before', async (t) => {
  const prior = await readPrior();
  /** Those that may send by themselves, or without which nothing else does. */
  const gatesOf = (parts: readonly string[], attributes: string): readonly (string | undefined)[] => {
    const { gates, conditions } = planGates([signature('Test.A', parts, attributes)], { ...NONE, prior });
    const first = conditions[0]?.sets[0];
    return first === undefined
      ? gates.map(({ gate }) => gate.pattern)
      : first.map((index) => gates[index]?.gate.pattern);
  };
  const [stub, call, own] = [hex('cannot be run in DOS'), hex('GetProcAddress'), hex('Xk2#qZ9!vW7&')];
  t.same(gatesOf([stub, call, own], 'Target:1'), [own]);
  t.same(gatesOf([stub, call], 'Target:1'), [], 'a signature without another one is asked about each content');
  t.same(
    gatesOf(
      [hex('%PDF'), own].map((part) => `0:${part}`),
      'Target:10',
    ),
    [`${own}`],
    'by the first bytes',
  );
  const wide = Buffer.from('CompanyName', 'utf16le').toString('hex');
  t.same(gatesOf([wide], 'Target:1'), [], 'in wide characters');
  t.same(gatesOf([`${hex('getprocaddress')}::i`], 'Target:1'), [], 'in any case');
  t.same(gatesOf(['36223626362a362e36323636363a363e36423646364a364e'], 'Target:1'), [], 'relocations');
  t.same(gatesOf(['e8????000083c408'], 'Target:1'), [], 'a few bytes of which nothing was counted');
  const [nearly, strange] = [hex('cannot be run in DZQ#'), hex('Xk2#qZ9!vW7&Xk2#qZ9!vW7&')];
  t.same(gatesOf([nearly, strange], 'Target:1'), [strange], 'less of it was seen');
});

t.test(
  'where what is rarest is likely all the same, a share looks only where something else has hit as well',
  async (t) => {
    const [likely, other, rare] = [hex('gxqkzpr'), hex('wbvmjt'), hex('Xk2#qZ9!vW7&mR4$sH6=dQaJ')];
    const lines = [
      signature('Test.A', [likely, other]),
      signature('Test.B', [rare, other]),
      signature('Test.C', [other]),
    ];
    const plan = planGates(lines, NONE);
    const indexOf = (pattern: string): number => plan.gates.findIndex(({ gate }) => gate.pattern === pattern);
    t.same(plan.conditions, [{ share: 0, sets: [[indexOf(likely)], [indexOf(other)]] }]);
    const alone = plan.gates.filter(({ shares }) => shares.length > 0).map(({ gate }) => gate.pattern);
    t.same(alone, [other, rare]);
  },
);

t.test('in programs for Windows all that a signature needs must have hit, also what is common', async (t) => {
  const prior = await readPrior();
  const parts = ['Xk2#qZ9!vW7&mR4$sH6=dQaJ', 'GetProcAddress', 'cannot be run in DOS', 'gxqkzprwbv', 'hjwqvzxkpf'].map(
    hex,
  );
  const planned = (target: number): readonly number[] =>
    planGates([signature('Test.A', parts, `Target:${target}`)], { ...NONE, prior }).conditions.map(
      ({ sets }) => sets.length,
    );
  t.same(planned(1), [4]);
  t.same(planned(6), [], 'elsewhere each gate costs, so what is rare has one');
});

t.test('signatures with one gate are looked at together, and one gate may have several shares', async (t) => {
  const lines = [
    signature('Test.A', [hex('a shared literal')]),
    signature('Test.B', [hex('a shared literal')], 'Target:1'),
  ];
  const plan = planGates([...lines, signature('Test.C', [hex('a shared literal')])], NONE);
  t.same(plan.shares.map((share) => share.length).sort(), [1, 2]);
  t.equal(plan.gates.length, 2, 'one for each target');
  t.match(plan, { gated: 3, mail: null, handlers: [], kept: {} });
});

t.test('what is kept is counted by why', async (t) => {
  const handler = signature('Test.Handler', [hex('a handler')], 'HandlerType:CL_TYPE_PDF,Target:0');
  const plan = planGates(
    [
      handler,
      signature('Test.Twin', [hex('one of two')]),
      signature('Test.Twin', [hex('other of two')]),
      signature('Test.None', [`${hex('short')}::i`]),
      'Test.Mixed;Engine:81-255,Target:0;0&1|2;41424344;45464748;494a4b4c',
      'Test.Short',
    ],
    NONE,
  );
  t.match(plan, { gated: 0, gates: [], shares: [], handlers: [handler] });
  t.same(plan.kept, { handler: 1, 'same name': 2, 'no gate': 1, expression: 1, fields: 1 });
});

t.test(
  'signatures for mails without a gate have a share of their own, with what their layers begin with',
  async (t) => {
    const zipped = 'Test.Zip;Engine:81-255,Container:CL_TYPE_MAIL,Target:0;2;0:504b;0:526172211a07;0|1/[0-9]file[.]js/';
    const plan = planGates([zipped, signature('Test.A', [hex('a literal')])], NONE);
    t.same(plan.mail, { share: 1, beginnings: ['504b', '526172211a07'] });
    t.same(plan.shares[1], [zipped]);
    const anything = 'Test.Any;Engine:81-255,Intermediates:CL_TYPE_MAIL>CL_TYPE_ZIP,Target:0;1;41;0/x/';
    t.same(
      planGates([zipped, anything], NONE).mail,
      { share: 0, beginnings: [] },
      'one of them may begin with anything',
    );
  },
);

t.test(
  'signatures whose gates are likely to hit have a share of their own, the others are divided; mails and programs are apart',
  async (t) => {
    const rare = Array.from({ length: 20_001 }, (_, index) =>
      signature(`Test.Rare-${index}`, [hex(`${index} is a long text of many letters: vwxyz`)], 'Target:1'),
    );
    const common = Array.from({ length: 100 }, (_, index) =>
      signature(`Test.Common-${index}`, [hex(`k${String(index).padStart(3, '0')}#zq`)], 'Target:1'),
    );
    const mail = 'Test.Zip;Engine:81-255,Container:CL_TYPE_MAIL,Target:0;1;0:504b;0/[0-9]file[.]js/';
    const other = signature('Test.A', [hex('a literal')]);
    const triggered = [program('1.cbc', [hex('a trigger')])];
    const plan = planGates([...rare, ...common, other, mail], { ...NONE, programs: triggered });
    const [likely = [], ...rest] = plan.shares;
    t.equal(likely.length, 4_000);
    t.ok(common.every((line) => likely.includes(line)));
    t.equal(plan.shares.length, 6);
    const [first = [], second = [], ...apart] = rest;
    t.equal(first.length + second.length, 16_101);
    t.ok(Math.min(first.length, second.length) > 7_000, `${first.length} and ${second.length}`);
    t.same(apart.slice(0, 2), [[other], [mail]]);
    t.same([plan.mail?.share, plan.programShare], [4, 5]);
    t.same(planGates([...common, other], NONE).shares.length, 2);
    t.same(planGates([], NONE).shares, []);
  },
);

t.test('bytecode programs have a share of their own, as far as their triggers have gates', async (t) => {
  const other = signature('Test.A', [hex('a literal')]);
  const programs = [
    program('1.cbc', [hex('a trigger')]),
    program('2.cbc', [hex('any word'), `74:${'00'.repeat(54)}`]),
    program('3.cbc', ['2:0108']),
    { file: '4.cbc', trigger: signature('BC.4', [hex('a handler')], 'HandlerType:CL_TYPE_MAIL,Target:0') },
  ];
  const plan = planGates([other], { ...NONE, programs });
  t.match(plan, { programShare: 1, gated: 3, kept: { program: 2 } });
  t.same(plan.shares[1], ['1.cbc;BC.1.cbc', '2.cbc;BC.2.cbc']);
  t.equal(planGates([other], NONE).programShare, null);
  t.match(
    planGates([other], { ...NONE, triggerNames: ['Test.A'] }),
    { gated: 0, kept: { 'same name': 1 } },
    'a signature that is called like a trigger stays',
  );
});

t.test('extended signatures are gated where there are many of a kind', async (t) => {
  const line = (target: number, index: number): string =>
    `Test.Extended-${target}-${index}:${target}:*:${hex(`${index} is a long text: vwxyz`)}`;
  const ofAny = Array.from({ length: 2_000 }, (_, index) => line(0, index));
  const others = [line(1, 0), line(2, 0), line(3, 0)];
  const few = planGates([...ofAny.slice(1), ...others], NONE);
  t.match(few, { gated: 2, kept: { 'few of a kind': 2_000 } });
  const many = planGates([...ofAny, ...others], NONE);
  t.match(many, { gated: 2_002, kept: { 'few of a kind': 1 } });
  const inMatcher = many.gates.filter((_, index) => !many.literals.has(index)).map(({ gate }) => gate.target);
  t.same(inMatcher.sort(), [0, 1, 2], 'one of each kind is left to libclamav');
  t.ok(
    many.gates.every(({ shares }) => shares.length === 1),
    'one gate is enough',
  );
});
