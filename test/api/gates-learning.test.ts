// A service learns from what it looks at twice: after one load it looks at it once, and so it does with other signatures of the same bytes.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { databaseFolder } from '../native/engine.js';

// Each is rare enough to be a gate alone.
const PARTS = ['Xk2#qZ9!vWaJ0&bL~eRn', 'Zm7$sH4@wC6=dQfG1*iUoKy', 'Yp5%rT8&uB3~cEhF2+gNxSl'];
/** Rare as well. Its pieces are too short for a window. A `?` is any byte. */
const IN_PIECES = 'Xk2#q?Z9!v&?WaJ0b?L~eR%';
const AT_ONCE = 8;
const NOISE = 'gates hit for nothing';

const patternOf = (text: string): string => Buffer.from(text).toString('hex').replaceAll('3f', '??');

function signature(name: string, parts: readonly string[]): string {
  const bytes = parts.map(patternOf).join(';');
  return `${name};Engine:81-255,Target:0;${parts.map((_, index) => index).join('&')};${bytes}\n`;
}

t.test('what clean files have is looked at once after a load, whatever signatures it is of', async (t) => {
  const folder = databaseFolder(t, {
    'a.ldb': signature('Test.A', PARTS),
    'pieces.ldb': signature('Test.Pieces', [IN_PIECES, 'ends']),
  });
  const env = { SIGNATURES_DIR: folder, SIGNATURES_POLL_SECONDS: '3600', PLANS: 'FREE:100000,BUSINESS:100000' };
  const server = await startServer({ t, env });
  const secondLooks = () => server.metric('sluice_gates_second_looks');
  const takesTwo = async (text: string): Promise<boolean> => {
    const before = await secondLooks();
    t.equal((await upload(server.url, text)).body['infected'], false);
    return (await secondLooks()) > before;
  };
  const loads = (): number => server.output().split('"msg":"signatures loaded"').length - 1;

  const looks: boolean[] = [];
  for (const part of PARTS) looks.push(await takesTwo(part));
  t.equal(looks.filter(Boolean).length, 1);
  const gate = PARTS[looks.indexOf(true)] ?? '';
  const [beside = '', rest = ''] = PARTS.filter((part) => part !== gate);
  t.equal(await takesTwo(IN_PIECES), true);
  const clean = `${gate} and ${beside} and ${IN_PIECES}`;

  const loadsBefore = loads();
  for (let turn = 0; !server.output().includes(NOISE); turn += 1) {
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => upload(server.url, `${turn}.${index} ${clean}`)));
  }
  await until(() => loads() > loadsBefore);
  t.equal(await takesTwo(clean), false);
  t.equal(await takesTwo(rest), true, 'what no clean file has is the gate');
  t.equal((await upload(server.url, PARTS.join(' '))).body['infected'], true);
  t.equal((await upload(server.url, `${IN_PIECES} ends`)).body['infected'], true);
  const gates = join(server.directory, 'data', 'gates');
  t.ok(existsSync(join(gates, 'learned.bin')));
  const learned: unknown = JSON.parse(readFileSync(join(gates, 'noise.json'), 'utf8'));
  t.strictSame(learned, [`0:*:${patternOf(IN_PIECES)}`], 'windows say all but this');

  writeFileSync(join(folder, 'a.ldb'), signature('Test.B', [beside, rest, gate]) + signature('Test.C', [gate, rest]));
  process.kill(server.pid, 'SIGHUP');
  await until(async () => (await (await fetch(`${server.url}/readyz`)).text()).includes('"signatures":3'));
  t.equal(await takesTwo(`once more ${clean}`), false);
  t.equal((await upload(server.url, `${gate} ${rest}`)).body['infected'], true);
});
