// A service with gates: signatures behind them are found, newer ones after a reload, and the metrics tell of second looks.
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from '../fixtures/folder.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { databaseFolder } from '../native/engine.js';

function logicalSignature(name: string, first: string, second: string): string {
  const [one, other] = [first, second].map((text) => Buffer.from(text).toString('hex'));
  return `${name};Engine:81-255,Target:0;0&1;${one};${other}\n`;
}

const OLD = logicalSignature('Test.Old', 'Xk2#qZ9!vW old', 'Yp5%rT8uB3 old');
/** Without a gate. */
const WITHOUT = `Test.Short;Engine:81-255,Target:0;0;${Buffer.from('short').toString('hex')}::i`;
const NEW = logicalSignature('Test.New', 'Zm7@sH4wC6 new', 'Qd9=jF2!kL new');

// For the first two tests: the second one starts with the gates that the first one has left.
const folder = databaseFolder(t, { 'a.ldb': `${OLD}${WITHOUT}\n` });
const dataDirectory = temporaryFolder(t);
const env = { SIGNATURES_DIR: folder, SIGNATURES_POLL_SECONDS: '0', DATA_DIR: dataDirectory };

t.test('what is behind gates is found, newer ones at the first scan after the reload', async (t) => {
  const server = await startServer({ env });
  t.teardown(() => server.stop('SIGKILL'));
  const isInfected = async (text: string): Promise<unknown> => (await upload(server.url, text)).body['infected'];
  t.equal(await isInfected('Xk2#qZ9!vW old and Yp5%rT8uB3 old'), true);
  t.equal(await isInfected('Xk2#qZ9!vW old'), false);
  t.equal(await isInfected('Zm7@sH4wC6 new and Qd9=jF2!kL new'), false);

  const metrics = await server.metrics();
  t.match(metrics, /^sluice_gates_signatures 1$/m);
  t.match(metrics, /^sluice_gates_second_looks [12]$/m, 'one of the two literals is the gate');
  t.match(metrics, /^sluice_gates_in_vain [01]$/m);
  t.match(metrics, /^sluice_gates_lookers [12]$/m);
  t.match(metrics, /^sluice_gates_scans \d+$/m);
  t.match(metrics, /^sluice_gates_given_up 0$/m);
  t.match(metrics, /^sluice_gates_kept\{reason="no gate"\} 1$/m);

  writeFileSync(join(folder, 'a.ldb'), `${OLD}${WITHOUT}\n${NEW}`);
  process.kill(server.pid, 'SIGHUP');
  await until(async () => (await (await fetch(`${server.url}/readyz`)).text()).includes('"signatures":3'));
  t.equal(await isInfected('Zm7@sH4wC6 new and Qd9=jF2!kL new'), true);
  t.equal(await isInfected('Xk2#qZ9!vW old and Yp5%rT8uB3 old'), true);
  await server.printed(/"gated":(2)/);
  t.equal(await server.stop(), 0);
});

t.test('files of gates that cannot be loaded are done without, and the log says why', async (t) => {
  const store = join(dataDirectory, 'gates');
  const folders = readdirSync(store).filter((name) => statSync(join(store, name)).isDirectory());
  t.ok(folders.length > 0);
  for (const name of folders) writeFileSync(join(store, name, 'gates.ndb'), 'no signature\n');

  const server = await startServer({ t, env });
  await server.printed(/(Signatures are loaded without gates: [^"]*gates.ndb)/);
  t.equal((await upload(server.url, 'Xk2#qZ9!vW old and Yp5%rT8uB3 old')).body['infected'], true);
});

t.test('where gates cannot be made, one engine looks at everything, and the log says why', async (t) => {
  const dataDirectory = temporaryFolder(t);
  mkdirSync(dataDirectory, { recursive: true });
  writeFileSync(join(dataDirectory, 'gates'), 'no folder');
  const folder = databaseFolder(t, { 'a.ldb': `${OLD}${WITHOUT}\n` });
  const server = await startServer({ t, env: { SIGNATURES_DIR: folder, DATA_DIR: dataDirectory } });
  await server.printed(/(Signatures are loaded without gates: [^"]*gates)/);
  t.equal((await upload(server.url, 'Xk2#qZ9!vW old and Yp5%rT8uB3 old')).body['infected'], true);
});

t.test('where a thread dies that makes gates, one engine looks at everything, and the log says why', async (t) => {
  const script = `import { workerData } from 'node:worker_threads';
    if (workerData?.wants === 'gates') process.exit(1);`;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(script)}`;
  const folder = databaseFolder(t, { 'a.ldb': `${OLD}${WITHOUT}\n` });
  const server = await startServer({ t, env: { SIGNATURES_DIR: folder, NODE_OPTIONS } });
  await server.printed(/(Signatures are loaded without gates: The thread for gates has ended without a result)/);
  t.equal((await upload(server.url, 'Xk2#qZ9!vW old and Yp5%rT8uB3 old')).body['infected'], true);
});
