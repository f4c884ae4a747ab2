// A machine without libclamav, compilers and apt: it builds, it serves by rules alone, and it says so everywhere.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import t from 'tap';
import { addonPath, packageJsonPath } from '../../src/paths.js';
import { zip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { eicar } from '../fixtures/samples.js';
import { startServer } from '../fixtures/server.js';
import { upload } from '../fixtures/upload.js';

const root = dirname(packageJsonPath);
const parts = [
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'build.mjs',
  'build-check.mjs',
  'build-uws.mjs',
  'signatures',
  'docs',
  'native',
  'src',
  'dist',
];

/** The addon, the tests and benches, and what tests keep in dist/ for each other: some hundred megabytes. */
function isLeftOut(path: string): boolean {
  const place = relative(root, path);
  return place.startsWith(join('native', 'build')) || /^dist\/(test$|bench$|embedded-|postgres-template-)/.test(place);
}

/** This project without its addon, and a PATH with a shell in it and little else. */
function bareMachine() {
  const folder = temporaryFolder(t);
  const project = join(folder, 'sluice');
  for (const part of parts) {
    cpSync(join(root, part), join(project, part), {
      recursive: true,
      preserveTimestamps: true,
      filter: (path) => !isLeftOut(path),
    });
  }
  // What is there is built. That it is compiled here as well, a test below sees.
  const stamp = join(project, 'dist', '.built');
  writeFileSync(stamp, readFileSync(stamp, 'utf8').replace(/^(test|bench)\/.*\n/gm, ''));
  symlinkSync(join(root, 'node_modules'), join(project, 'node_modules'));
  const programs = join(folder, 'bin');
  mkdirSync(programs);
  symlinkSync(process.execPath, join(programs, 'node'));
  for (const program of ['sh', 'id']) symlinkSync(join('/usr/bin', program), join(programs, program));
  return { project, main: join(project, 'dist', 'src', 'main.js'), env: { PATH: programs } };
}

const { project, main, env } = bareMachine();

function build(engine: string) {
  return spawnSync(process.execPath, ['build.mjs'], {
    cwd: project,
    env: { ...env, ENGINE: engine },
    encoding: 'utf8',
  });
}

t.test('without ClamAV the build stops and says what to do, unless YARA rules alone are asked for', async (t) => {
  const auto = build('auto');
  t.equal(auto.status, 1);
  t.match(auto.stderr, "The build stopped: ClamAV's engine could not be built");
  t.match(auto.stderr, 'no apt-get was found');
  t.match(auto.stderr, '`ENGINE=yara npm start` scans with YARA rules alone');
  const yara = build('yara');
  t.match(yara, { status: 0, stderr: '' });
  t.notMatch(yara.stdout, /ClamAV|YARA/, 'nothing is lost that was wanted');
  const clamav = build('clamav');
  t.match(clamav, { status: 1, stderr: /The build stopped/ });
  t.notMatch(clamav.stderr, 'ENGINE=yara');
});

t.test('a build that has nothing to do looks at its stamp alone; a new file makes it look again', async (t) => {
  const nothing = 'Everything is installed and built.';
  t.notMatch(build('yara').stdout, nothing, 'after a build that has failed');
  t.match(build('yara').stdout, nothing);
  writeFileSync(join(project, 'docs', 'new.txt'), 'something');
  t.notMatch(build('yara').stdout, nothing);
  t.match(build('yara').stdout, nothing);
  rmSync(join(project, 'docs', 'new.txt'));
  t.notMatch(build('yara').stdout, nothing);
  // What a build made must be there, the bundled program as well.
  for (const made of ['src/limits.js', 'program/program.js']) {
    rmSync(join(project, 'dist', made));
    t.match(build('yara').stdout, 'Compiling TypeScript', made);
    t.ok(existsSync(join(project, 'dist', made)));
  }
  t.equal(build('auto').status, 1, 'ClamAV is looked for again each time that it is wanted');
  t.equal(build('auto').status, 1);
});

t.test('only ClamAV, where it is asked for', async (t) => {
  const server = await startServer({ t, main, env: { ENGINE: 'clamav' }, untilReady: false });
  await server.printed(/(the signatures could not be loaded: scans are refused)/);
  const ready = await fetch(`${server.url}/readyz`);
  t.equal(ready.status, 503);
  t.match(await ready.json(), { engine: { status: 'failed', message: 'The native engine is not built' } });
  t.equal((await upload(server.url, 'some text')).status, 503);
});

// The last one on the bare machine: it gets the addon.
t.test('it serves by rules alone and says so, until ClamAV is there', async (t) => {
  const server = await startServer({ t, isSupervised: true, main, env: { SIGNATURES_POLL_SECONDS: '0' } });
  const because = 'The native engine is not built';
  const ready = await fetch(`${server.url}/readyz`);
  t.equal(ready.status, 200);
  t.match(await ready.json(), {
    engine: {
      status: 'degraded',
      engine: 'yara-x',
      message: because,
      rules: { engine: 'yara-x/1.7.1', refusedFiles: 0 },
    },
  });
  t.match(await (await fetch(`${server.url}/version`)).json(), {
    engine: /^yara-x\/1\.7\.1; signatures=/,
    standsIn: true,
  });
  t.match(server.output(), /"level":40[^\n]*YARA-X stands in for ClamAV/);

  const infected = await upload(server.url, eicar());
  t.match(infected.body, { infected: true, virusName: 'Sluice.Test.EICAR.UNOFFICIAL' });
  const clean = await upload(server.url, 'some text');
  t.match(clean.body, { infected: false, virusName: null });
  for (const { headers } of [infected, clean]) {
    t.match(headers.get('x-scan-engine'), /^yara-x\/1\.7\.1; signatures=[0-9a-f]{8}; built=/);
    t.equal(headers.get('x-scan-notice'), 'raw-content');
  }
  await server.printed(/("engine":"yara-x[^\n]*"msg":"scan")/);
  const archive = zip([{ name: 'm', content: Buffer.from('some text') }]);
  t.match(await upload(server.url, archive), {
    status: 422,
    body: { error: 'Scan failed', message: 'Scan incomplete: engine cannot unpack ZIP' },
  });

  cpSync(addonPath, join(project, 'native', 'build', 'Release', 'sluice.node'), { recursive: true });
  process.kill(server.pid, 'SIGHUP');
  await server.printed(/("name":"clamav"[^\n]*"msg":"signatures loaded")/);
  const now = await upload(server.url, 'some text');
  t.match(now.headers.get('x-scan-engine'), /^clamav\//);
  t.equal(now.headers.get('x-scan-cache'), 'MISS', "what YARA-X said is not remembered as ClamAV's");
  t.equal(now.headers.get('x-scan-notice'), null);
  t.match(await upload(server.url, archive), { status: 200, body: { infected: false } });
});

t.test('only YARA-X, where it is asked for: nothing stands in for anything', async (t) => {
  const server = await startServer({ t, env: { ENGINE: 'yara' } });
  t.match(await (await fetch(`${server.url}/readyz`)).json(), { engine: { status: 'ready', engine: 'yara-x' } });
  const answer = await upload(server.url, 'some text');
  t.equal(answer.headers.get('x-scan-notice'), 'raw-content');
});
