// The addon of the tests: it fails as ordered, and nothing of it is in the one that is shipped.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { addonPath } from '../../src/paths.js';
import { start } from '../fixtures/command.js';
import { faultAddonPath, faultEnvironment } from '../fixtures/faults.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { bodySignature, databaseFolder } from './engine.js';

const program = fileURLToPath(new URL('./faulty-process.js', import.meta.url));

function scan(t: { teardown(undo: () => void): void }, orders: readonly string[], env = {}) {
  const databases = databaseFolder(t, { 'a.ndb': bodySignature('Test.A', 'a mark of this test') });
  return start(t, program, [databases, temporaryFolder(t), ...orders], { env: { SANDBOX: 'off', ...env } }).ended;
}

function verdicts(stdout: string): unknown[] {
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

t.test('nothing of the faults is in the addon that is shipped', async (t) => {
  const shipped = readFileSync(addonPath, 'latin1');
  const faults = readFileSync(faultAddonPath, 'latin1');
  for (const text of ['SLUICE-FAULT', 'Fault.', 'process_vm_readv', 'faults']) {
    t.ok(faults.includes(text), `${text} tells the two apart`);
    t.notOk(shipped.includes(text), `${text} is not shipped`);
  }
});

t.test('the shipped addon scans an order like any other content', async (t) => {
  const { stdout } = await scan(t, ['crash segv', 'fail 20']);
  t.same(verdicts(stdout), [
    { kind: 'clean', encrypted: false },
    { kind: 'clean', encrypted: false },
  ]);
});

t.test('scans go on, fail or find as ordered', async (t) => {
  const orders = [
    ...['hang sleep 0.01', 'hang busy 0.01', 'await sleep /', 'await busy /'],
    ...['leak 1', 'fail 20', 'name Some.Name', 'map 1', 'map 999999999'],
  ];
  const { stdout } = await scan(t, orders, faultEnvironment);
  t.match(verdicts(stdout), [
    ...Array.from({ length: 5 }, () => ({ kind: 'clean' })),
    { kind: 'incomplete', reason: /engine error/ },
    { kind: 'infected', virusName: 'Some.Name' },
    { kind: 'infected', virusName: 'Fault.map.OK' },
    { kind: 'infected', virusName: 'Fault.map.ENOMEM' },
  ]);
});

for (const [how, end] of [
  ['segv', { code: null, signal: 'SIGSEGV' }],
  ['abort', { code: null, signal: 'SIGABRT' }],
  ['throw', { code: null, signal: 'SIGABRT' }],
  ['stack', { code: null, signal: 'SIGSEGV' }],
  ['exit', { code: 99, signal: null }],
] as const) {
  t.test(`a crash by ${how} ends the process`, async (t) => {
    const { code, signal } = await scan(t, [`crash ${how}`], faultEnvironment);
    t.same({ code, signal }, end);
  });
}
