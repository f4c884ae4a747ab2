// The binaries of uWebSockets.js: which one is for this Node, whether it is the one that was looked at, and how another one is fetched.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

// By Node's ABI: 115 is Node 20, 127 is Node 22, 137 is Node 24, 141 is Node 25. Nobody signs them.
// Those of uws-pack 20.0.8, which is installed by the name of uWebSockets.js:
const packed = {
  uws_linux_x64_115: '6f8d96d761a64beddb060f1f7f0e617dd293ed127ec1d57507aa561a0083171e',
  uws_linux_x64_127: '8cabc918bbf9a07323e54f89a33882491080b2eb35df0607f473ccdb1f3c31af',
  uws_linux_arm64_115: 'c0e29fc143b46b584f3debec7910014ec228198fc1f17aaeacd1de7991bd3769',
  uws_linux_arm64_127: 'd4c4f8b2c28c5f6544b49e36d91b0beee238a5b90a07904a947f77061c8b814d',
};
// And of uwebsockets 3.0.6:
const fetched = {
  uws_linux_x64_137: '3b549c14e01d9d1faf234cdf4b6f0fb08158605e3692cd0eb1b905e327bd3449',
  uws_linux_x64_141: 'd22bae7642b872152cd0eeb682c6c2ffd186e91af8cf18cdf98be984a6549d49',
  uws_linux_arm64_137: 'b6eb007d627e00bcce03ad38f197124e9027c03f6fe784b37f97b8a6ea709cb4',
  uws_linux_arm64_141: '1317f2e69ea1924ee8dd94ed02a3e6beb08e55d8b06f18caeda3d67a02857aee',
};
const FETCHED_PACKAGE = 'uwebsockets@3.0.6';
const FETCHED_SHA512 =
  'd0dc36d830ce7756069c9f3f2076150831d95c056a2e78c1c64b65d9b4a37094557206ac6f666cf1609184be3523276b68b2ead34d5ceb27077484beac4700c7';
const FETCHED_GLIBC = 2.38;

const binary = `uws_${process.platform}_${process.arch}_${process.versions.modules}`;
const choice = process.env.HTTP_SERVER || 'auto';

/** What a build depends on, for its stamp. */
export const uwsChoice = choice === 'auto' ? 'auto' : `HTTP_SERVER=${choice}`;

/** The files that are loaded. */
export function uwsFiles(root) {
  const installed = join(root, 'node_modules', 'uWebSockets.js');
  return [join(installed, 'package.json'), join(installed, 'dist', 'bin', `${binary}.node`), fetchedPath(root)];
}

function fetchedPath(root) {
  return join(root, 'dist', 'uwebsockets', `${binary}.node`);
}

/** Why the package that has a binary for this Node is not fetched now; null: it may be. */
function whyNotFetched() {
  if (!(binary in fetched))
    return `there is no build of uWebSockets.js for Node ${process.versions.node} that we know of`;
  const glibc = process.report.getReport().header.glibcVersionRuntime;
  if (!(Number(glibc) >= FETCHED_GLIBC)) return `the build for this Node wants glibc ${FETCHED_GLIBC} or later`;
  return null;
}

/** The commands that fetch it, where it is wished for, isn't there, and can be had; otherwise none. */
export function uwsCommands(root) {
  const isWanted = choice === 'uws' && !(binary in packed) && !isOwn(root);
  if (!isWanted || whyNotFetched() !== null || sumOf(fetchedPath(root)) === fetched[binary]) return [];
  const files = ['package.json', 'LICENSE', 'uws.js', `${binary}.node`].map((file) => `package/${file}`);
  return [
    ['npm', ['pack', FETCHED_PACKAGE, '--pack-destination', 'dist/uwebsockets']],
    ['tar', ['-xzf', tarball, '-C', 'dist/uwebsockets', '--strip-components=1', ...files]],
  ];
}

const tarball = 'dist/uwebsockets/uwebsockets-3.0.6.tgz';

/** In words, with what it costs. */
export const uwsFetching = `Fetching uWebSockets.js for Node ${process.versions.node} (${FETCHED_PACKAGE} from npm): 98 MB, of which 7 stay in dist/uwebsockets`;

/** `run(program, arguments)` resolves when the command has succeeded. Throws when it isn't what was looked at. */
export async function fetchUws(root, run) {
  const [pack, extract] = uwsCommands(root);
  mkdirSync(join(root, 'dist', 'uwebsockets'), { recursive: true });
  await run(...pack);
  assertSum(join(root, tarball), FETCHED_SHA512, 'sha512');
  await run(...extract);
  rmSync(join(root, tarball));
}

/** Says what serves under this Node where that isn't the installed package. Throws when a file isn't the one that was looked at. */
export function checkUws(root) {
  if (choice === 'node') return null;
  if (isOwn(root)) return `uWebSockets.js is a build of your own, ${nameIn(root)}: it is used as it is.`;
  if (binary in packed) {
    assertSum(join(root, 'node_modules', 'uWebSockets.js', 'dist', 'bin', `${binary}.node`), packed[binary], 'sha256');
    return null;
  }
  if (existsSync(fetchedPath(root)) && binary in fetched) {
    assertSum(fetchedPath(root), fetched[binary], 'sha256');
    return null;
  }
  const reason = whyNotFetched();
  if (choice === 'uws') throw new UwsProblem(`HTTP_SERVER=uws: ${reason}.`, 'HTTP_SERVER=auto serves by node:http.');
  return reason === null
    ? `node:http will serve: npm has no uWebSockets.js for Node ${process.versions.node} but in a package of 98 MB. HTTP_SERVER=uws fetches it.`
    : `node:http will serve: ${reason}.`;
}

/** Somebody has installed another package by that name: the official one, or one that was made at home. */
function isOwn(root) {
  return !nameIn(root).startsWith('uws-pack ');
}

function nameIn(root) {
  const { name, version } = JSON.parse(
    readFileSync(join(root, 'node_modules', 'uWebSockets.js', 'package.json'), 'utf8'),
  );
  return `${name} ${version}`;
}

function sumOf(path, algorithm = 'sha256') {
  return existsSync(path) ? createHash(algorithm).update(readFileSync(path)).digest('hex') : 'missing';
}

function assertSum(path, wanted, algorithm) {
  const sum = sumOf(path, algorithm);
  if (sum === wanted) return;
  throw new UwsProblem(
    `${path} is not the file that was pinned: its ${algorithm} is ${sum}, not ${wanted}.`,
    'Remove node_modules and dist, and run the same command again. If it stays so, do not run this package: tell us.',
  );
}

export class UwsProblem extends Error {
  constructor(what, todo) {
    super(what);
    this.todo = todo;
  }
}
