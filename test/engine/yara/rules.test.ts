// The operator's YARA rules, beside ClamAV and in its place: what is wrong with one file stops no other, and a reload changes verdicts.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import t from 'tap';
import type { SignatureEvent } from '../../../src/engine/engine.js';
import { loadSignatures } from '../../../src/engine/signatures.js';
import { loadRules, validateRules } from '../../../src/engine/yara/engine.js';
import { ownSignaturesDirectory, ruleValidationPath } from '../../../src/paths.js';
import { zip } from '../../fixtures/archives.js';
import { outcomeOf, startEngine } from '../../fixtures/engines.js';
import { temporaryFolder } from '../../fixtures/folder.js';
import { childrenOf } from '../../fixtures/processes.js';
import { eicar } from '../../fixtures/samples.js';
import { until } from '../../fixtures/until.js';
import { bodySignature, databaseFolder } from '../../native/engine.js';

const MIB = 1024 * 1024;
const TEST_FILES = '/usr/share/clamav-testfiles';
const CLEAN = { kind: 'clean', encrypted: false };
const ENDLESS = 'rule endless { condition: for all i in (0..9223372036854775806) : (i != -1) }';
/** Between two scans while rules are loaded: hundreds in a second are left. */
const PAUSE_MS = 5;
const HARMLESS = Buffer.from('nothing to see here');

function rule(name: string, text: string, meta = ''): string {
  return `rule ${name} {\n  ${meta}\n  strings:\n    $text = "${text}"\n  condition:\n    $text\n}\n`;
}

function warningsOf(events: readonly SignatureEvent[]): string {
  return events.map((event) => (event.kind === 'warning' ? event.message : '')).join('\n');
}

function infected(virusName: string) {
  return { kind: 'infected', virusName };
}

for (const engine of ['clamav', 'yara'] as const) {
  t.test(engine, async (t) => {
    t.test('a bad rule file is reported with its line, and the others serve', async (t) => {
      const folder = databaseFolder(t, {
        'a.ndb': bodySignature('Test.Database', 'in the database'),
        'good.yar': rule('good', 'good text'),
        'broken.yar': `${rule('fine', 'fine text')}rule broken {\n  condition:\n    $nothing\n}\n`,
        'include.yara': 'include "/etc/passwd"\n',
        'prints.yar': 'import "console"\nrule prints { condition: console.log("x") }\n',
        'binary.yar': Buffer.from([0xff, 0xfe, 0x00, 0x80]),
        'greedy.yar': 'rule greedy { condition: filesize > 0 }\n',
        'late.yara': rule('late', 'late text'),
      });
      const { verdict, events, signatures } = await startEngine(t, { engine, directories: [folder] });
      t.match(await verdict(Buffer.from('.. good text ..')), infected('YARA.good.UNOFFICIAL'));
      t.match(await verdict(Buffer.from('.. late text ..')), infected('YARA.late.UNOFFICIAL'));
      const told = warningsOf(events);
      t.match(told, `${folder}/broken.yar:10:5: unknown pattern \`$nothing\``);
      t.match(told, `${folder}/include.yara:1:1: include statements not allowed`);
      t.match(told, `${folder}/prints.yar:1:1: module not available`);
      t.match(told, `${folder}/binary.yar: not UTF-8 text`);
      t.match(told, `${folder}/greedy.yar: YARA.greedy.UNOFFICIAL matches harmless text`);
      const state = signatures.state();
      t.match(state, { kind: 'ready', engine: { rules: { count: 2 }, standsInFor: null } });
      t.equal(state.kind === 'ready' && state.engine.name, engine === 'clamav' ? 'clamav' : 'yara-x');
    });

    t.test('a match is named by its rule, or by the name that the rule gives', async (t) => {
      const folder = databaseFolder(t, {
        'a.ndb': bodySignature('Test.Database', 'in the database'),
        'names.yar': [
          // With modules, so that libclamav leaves them to YARA-X.
          'import "math"',
          'rule named { meta: virus_name = "Own.Name" strings: $a = "named text" condition: $a and math.min(1, 2) == 1 }',
          'rule spoofed { meta: virus_name = "Heuristics.Encrypted.Zip" strings: $a = "spoofed text" condition: $a and math.min(1, 2) == 1 }',
          'rule marked { meta: virus_name = "Sluice.Mark.Unscanned.X" strings: $a = "marked text" condition: $a and math.min(1, 2) == 1 }',
          'rule broken_name { meta: virus_name = "A\\x00\\nB" strings: $a = "control text" condition: $a and math.min(1, 2) == 1 }',
        ].join('\n'),
        'same-name.yar':
          'import "math"\nrule named { strings: $a = "other text" condition: $a and math.min(1, 2) == 1 }',
        'global.yar':
          'global rule only_large { condition: filesize > 1000 }\nrule large { strings: $a = "large text" condition: $a }',
      });
      const { verdict } = await startEngine(t, { engine, directories: [folder] });
      t.same(await verdict(Buffer.from('named text')), infected('Own.Name.UNOFFICIAL'));
      t.same(await verdict(Buffer.from('spoofed text')), infected('YARA.spoofed.UNOFFICIAL'));
      t.same(await verdict(Buffer.from('marked text')), infected('YARA.marked.UNOFFICIAL'));
      t.same(await verdict(Buffer.from('control text')), infected('YARA.broken_name.UNOFFICIAL'));
      t.same(await verdict(Buffer.from('other text')), infected('YARA.named.UNOFFICIAL'), 'a name that is taken');
      t.same(await verdict(Buffer.from('and then some')), CLEAN);
    });

    t.test('a short string all over the largest content ends', async (t) => {
      const folder = databaseFolder(t, {
        'a.ndb': bodySignature('Test.Database', 'in the database'),
        'a.yar': 'rule runs { strings: $a = "aaaa" $b = /a{3,900}/ condition: #a > 9000 and $b }',
      });
      const { verdict } = await startEngine(t, { engine, directories: [folder] });
      t.match(await verdict(Buffer.alloc(10 * MIB, 'a')), { kind: 'infected' });
    });

    t.test('rules that change under scans change the verdict with the epoch, and no verdict is of two', async (t) => {
      const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.Database', 'in the database') });
      const write = (version: number): void => {
        const meta = `meta: virus_name = "V${version}"`;
        const text = `import "math"\nrule versioned { ${meta} strings: $a = "versioned" condition: $a and math.min(1, 2) == 1 }`;
        writeFileSync(join(folder, 'v.yar.part'), text);
        renameSync(join(folder, 'v.yar.part'), join(folder, 'v.yar'));
      };
      write(1);
      const { pool, signatures } = await startEngine(t, { engine, directories: [folder] });
      const content = Buffer.concat([Buffer.from('versioned'), Buffer.alloc(20_000, 'x')]);
      const found = new Map<number, Set<string>>();
      const epochs: number[] = [];
      let done = false;
      const scanning = Array.from({ length: 4 }, async () => {
        while (!done) {
          // Without it the scans have both cores, and the loads wait for them.
          await setTimeout(PAUSE_MS);
          const { verdict, engine: looked } = await outcomeOf(pool, content);
          if (looked === null || verdict.kind !== 'infected') throw new Error(JSON.stringify(verdict));
          const { epoch } = looked;
          found.set(epoch, (found.get(epoch) ?? new Set()).add(verdict.virusName));
        }
      });
      const epochNow = (): number => {
        const state = signatures.state();
        return state.kind === 'ready' ? state.engine.epoch : 0;
      };
      epochs.push(epochNow());
      for (let version = 2; version <= 6; version += 1) {
        write(version);
        await signatures.reload();
        epochs.push(epochNow());
        // The first scan after it is of the new rules.
        t.match(await outcomeOf(pool, content), {
          engine: { epoch: epochNow() },
          verdict: infected(`V${version}.UNOFFICIAL`),
        });
      }
      done = true;
      await Promise.all(scanning);
      t.same(
        epochs,
        [...new Set(epochs)].sort((a, b) => a - b),
        'epochs rise',
      );
      for (const [epoch, names] of found) {
        t.same([...names], [`V${epochs.indexOf(epoch) + 1}.UNOFFICIAL`], `epoch ${epoch}`);
      }
      if (engine === 'yara') return;
      // Without rules nothing of them is left.
      rmSync(join(folder, 'v.yar'));
      await signatures.reload();
      t.match(await outcomeOf(pool, content), { engine: { epoch: epochNow() }, verdict: CLEAN });
      t.ok(epochNow() > (epochs.at(-1) ?? 0));
    });
  });
}

t.test('beside ClamAV, its databases still decide, and rules add to them', async (t) => {
  const folder = databaseFolder(t, {
    'a.ndb': bodySignature('Test.Database', 'in the database'),
    'a.yar': rule('plain', 'plain rule'),
  });
  const { verdict } = await startEngine(t, { engine: 'clamav', directories: [folder] });
  t.same(await verdict(Buffer.from('in the database, plain rule')), infected('Test.Database.UNOFFICIAL'));
  const packed = zip([{ name: 'm', content: Buffer.from('plain rule') }]);
  t.same(await verdict(packed), infected('YARA.plain.UNOFFICIAL'), 'libclamav takes it into archives');
  t.same(await verdict(zip([{ name: 'm', content: HARMLESS }])), CLEAN);
});

t.test('auto: ClamAV when it loads, rules alone when it does not, and back without a restart', async (t) => {
  const folder = databaseFolder(t, { 'bad.ldb': 'this is no signature\n' });
  const directories = [folder, ownSignaturesDirectory];
  const { verdict, signatures, events, pool } = await startEngine(t, { directories });
  const bad = signatures.state();
  t.match(bad, {
    kind: 'ready',
    engine: { name: 'yara-x', standsInFor: { name: 'ClamAV', reason: /bad\.ldb/ }, signatureVersion: /^[0-9a-f]{8}$/ },
  });
  t.match(warningsOf(events), /YARA-X stands in for ClamAV and looks at raw content only, because: .*bad\.ldb/);
  t.match(await verdict(eicar()), infected('Sluice.Test.EICAR.UNOFFICIAL'));
  t.match(await verdict(zip([{ name: 'm', content: HARMLESS }])), {
    kind: 'incomplete',
    reason: 'engine cannot unpack ZIP',
  });
  const before = await outcomeOf(pool, HARMLESS);
  rmSync(join(folder, 'bad.ldb'));
  writeFileSync(join(folder, 'a.ndb'), bodySignature('Test.Database', 'in the database'));
  await signatures.reload();
  t.match(signatures.state(), { kind: 'ready', engine: { name: 'clamav', standsInFor: null } });
  t.same(await verdict(zip([{ name: 'm', content: HARMLESS }])), CLEAN);
  t.same(await verdict(Buffer.from('in the database')), infected('Test.Database.UNOFFICIAL'));
  t.ok(((await outcomeOf(pool, HARMLESS)).engine?.epoch ?? 0) > (before.engine?.epoch ?? 0), 'the epoch has risen');
  // From here ClamAV goes on serving, whatever happens to the files.
  writeFileSync(join(folder, 'a.ndb'), 'nonsense');
  await signatures.reload();
  t.match(signatures.state(), {
    kind: 'ready',
    engine: { name: 'clamav' },
    reload: { kind: 'failed', message: /a\.ndb/ },
  });
  t.same(await verdict(Buffer.from('in the database')), infected('Test.Database.UNOFFICIAL'));
});

t.test('a rule that never ends is reported, and the others are tried', async (t) => {
  const folder = temporaryFolder(t);
  const texts = {
    'a.yar': 'rule a { strings: $a = "a mark" condition: $a }',
    'b.yar': ENDLESS,
    'c.yar': 'rule c { condition: syntax error }',
    'd.yar': ENDLESS.replace('endless', 'endless2'),
    'e.yar': 'rule e { strings: $a = "another mark" condition: $a }',
  };
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(folder, name), text);
  const files = await validateRules(
    Object.keys(texts).map((name) => join(folder, name)),
    1_000,
  );
  const endless = [{ line: null, column: null, message: 'does not end on harmless text' }];
  t.match(
    files.map(({ errors }) => errors),
    [[], endless, [{ line: 1 }], endless, []],
  );
});

/** The processes that try rules for this one. */
function validations(parent = process.pid): number[] {
  return childrenOf(parent).filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('rule-validation'));
}

/** A zombie that nobody here waits for has ended as well. */
function isRunning(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}

/** Has used so much of a core that it is in its rule. */
async function isBusy(pid: number): Promise<void> {
  const ticks = () => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[11];
  await until(() => Number(ticks()) >= 100);
}

t.test('a file at whose sample the process ends is reported, and the others are tried', async (t) => {
  const folder = temporaryFolder(t);
  const paths = ['a.yar', 'b.yar'].map((name) => join(folder, name));
  writeFileSync(paths[0] ?? '', ENDLESS);
  writeFileSync(paths[1] ?? '', rule('b', 'a mark'));
  // One of a test before may not have ended yet.
  const others = validations();
  const tried = validateRules(paths);
  // For a moment after its start a process has no command line.
  const pid = await until(() => validations().find((each) => !others.includes(each)));
  await isBusy(pid);
  process.kill(pid, 'SIGKILL');
  t.match(await tried, [{ errors: [{ message: 'the process that validated it ended with SIGKILL' }] }, { errors: [] }]);
});

t.test('a process that ends for no file’s sake fails the try, and leaves no listener', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'a.yar'), rule('a', 'a mark'));
  const before = process.listenerCount('exit');
  const others = validations();
  const tried = validateRules([join(folder, 'a.yar')]);
  const pid = await until(() => validations().find((each) => !others.includes(each)));
  process.kill(pid, 'SIGKILL');
  await t.rejects(tried, { message: 'The process that validates rules ended with SIGKILL' });
  t.equal(process.listenerCount('exit'), before);
});

t.test('the process that validates rules ends with the process that has started it, however that ends', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'a.yar'), ENDLESS);
  const module = new URL('../../../src/engine/yara/engine.js', import.meta.url).href;
  const script = `await (await import('${module}')).validateRules(['${folder}/a.yar'])`;
  const parent = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: 'ignore' });
  const pid = await until(() => validations(parent.pid)[0]);
  await isBusy(pid);
  parent.kill('SIGKILL');
  await until(() => !isRunning(pid));
  t.notOk(isRunning(pid));
  // As one whose parent was gone before it could look.
  const orphan = spawn(process.execPath, [ruleValidationPath, '1'], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  t.teardown(() => orphan.kill('SIGKILL'));
  t.strictSame(await once(orphan, 'exit'), [null, 'SIGKILL']);
});

t.test('a megabyte of rules serves, and two processes that try them at once', async (t) => {
  const folder = temporaryFolder(t);
  // What takes time is their number, not their length.
  const many = Array.from({ length: 2_000 }, (_, index) =>
    rule(`r${index}`, `a text that only number ${index} has`, '// '.padEnd(460, '.')),
  );
  writeFileSync(join(folder, 'many.yar'), many.join(''));
  const sets = await Promise.all([loadRules([folder]), loadRules([folder])]);
  for (const set of sets) t.match(set, { ruleCount: 2_000, files: [{ errors: [] }] });
  t.ok((sets[0]?.set.text.byteLength ?? 0) > MIB);
});

t.test('without a descriptor for a process, trying rules fails and nothing else', async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'a.yar'), rule('a', 'a mark'));
  const module = new URL('../../../src/engine/yara/engine.js', import.meta.url).href;
  const script = `
    import { openSync } from 'node:fs';
    const { validateRules } = await import('${module}');
    const listeners = process.listenerCount('exit');
    try { for (;;) openSync('/dev/null'); } catch {}
    await validateRules(['${folder}/a.yar']).catch(({ message }) => console.log(message, process.listenerCount('exit') - listeners));`;
  const limited = ['-c', 'ulimit -n 300; exec "$0" "$@"', process.execPath, '--input-type=module', '--eval', script];
  const { status, stdout, stderr } = spawnSync('/bin/sh', limited, { encoding: 'utf8' });
  t.match(stdout, /^The process that validates rules can't be started: .* 0\n$/);
  t.equal(status, 0, stderr);
});

t.test('nothing stands in where there is no rule, or where only ClamAV will do', async (t) => {
  const folder = databaseFolder(t, { 'bad.ldb': 'this is no signature\n' });
  for (const options of [
    { engine: 'auto' as const, directories: [folder] },
    { engine: 'clamav' as const, directories: [folder, ownSignaturesDirectory] },
    { engine: 'yara' as const, directories: [folder] },
  ]) {
    const signatures = loadSignatures({ scanTimeoutMs: 60_000, ...options });
    t.teardown(() => signatures.stop());
    await t.rejects(
      signatures.ready(),
      options.engine === 'yara' ? /there is no YARA rule/ : /bad\.ldb/,
      options.engine,
    );
    t.equal(signatures.state().kind, 'failed');
  }
});

t.test("YARA-X alone calls none of Debian's test files clean, which all hold the same program", async (t) => {
  t.ok(existsSync(TEST_FILES), `${TEST_FILES} is there (package clamav-testfiles)`);
  const { verdict } = await startEngine(t, { engine: 'yara' });
  for (const name of readdirSync(TEST_FILES)) {
    t.not((await verdict(readFileSync(join(TEST_FILES, name)))).kind, 'clean', name);
  }
  t.same(
    await verdict(readFileSync(join(TEST_FILES, 'clam.exe'))),
    infected('Sluice.Test.ClamAV-Test-File.UNOFFICIAL'),
  );
});
