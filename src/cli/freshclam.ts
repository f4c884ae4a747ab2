// freshclam, which downloads ClamAV's databases: run with a configuration of its own, and installed where it is missing and somebody agrees.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { freshclamSetupPath } from '../paths.js';

export interface DownloadOptions {
  /** Has the databases that are there already, so that only what is newer is fetched. */
  readonly folder: string;
  /** Null: ClamAV's own servers; `none`: only the URLs. */
  readonly mirror: string | null;
  readonly urls: readonly string[];
  readonly signal: AbortSignal;
}

const CLAMAV = 'database.clamav.net';
/** Seconds: a mirror that takes longer to begin, or that stalls for so long, is given up. */
const CONNECT_SECONDS = 30;
const STALL_SECONDS = 60;

/** Resolves with null, or with what went wrong. freshclam's own words go to stderr. */
export async function download(options: DownloadOptions): Promise<string | null> {
  const own = await mkdtemp(join(tmpdir(), 'sluice-freshclam-'));
  try {
    const path = join(own, 'freshclam.conf');
    await writeFile(path, configuration(options));
    const only = options.mirror === 'none' ? ['--update-db=custom'] : [];
    const progress = process.stderr.isTTY ? ['--show-progress'] : [];
    const ended = await run('freshclam', [`--config-file=${path}`, '--stdout', ...only, ...progress], options.signal);
    return ended === 0 ? null : `freshclam ended with ${ended}`;
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

function configuration({ folder, mirror, urls }: DownloadOptions): string {
  const isOfficial = mirror === null || mirror === 'none';
  return [
    `DatabaseDirectory ${folder}`,
    // Whom it becomes where root starts it. Others stay who they are: in a container they need not have a name.
    'DatabaseOwner root',
    // It is named even where nothing is asked of it: without one freshclam refuses to work.
    isOfficial ? `DatabaseMirror ${CLAMAV}` : `PrivateMirror ${mirror}`,
    ...(mirror === null ? [] : ['DNSDatabaseInfo no']),
    ...urls.map((url) => `DatabaseCustomURL ${url}`),
    // What it has fetched is loaded afterwards, all of it together.
    'TestDatabases no',
    `ConnectTimeout ${CONNECT_SECONDS}`,
    `ReceiveTimeout ${STALL_SECONDS}`,
    'MaxAttempts 3',
    '',
  ].join('\n');
}

const MISSING = 'freshclam is not installed (`--yes` installs it; on Debian it is `apt-get install clamav-freshclam`)';

/** Installs it where it is missing: after a question on a terminal, or because `isAgreed`. Resolves with null, or with why it is not there. */
export async function provideFreshclam(isAgreed: boolean, signal: AbortSignal): Promise<string | null> {
  if ((await run('freshclam', ['--version'], signal, 'ignore')) === 0) return null;
  if (!isAgreed && !(await agreed(signal))) return MISSING;
  const ended = await run('sh', [freshclamSetupPath], signal);
  return ended === 0 ? null : 'freshclam could not be installed';
}

async function agreed(signal: AbortSignal): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false;
  // Not as a terminal of its own: Ctrl-C stays a signal.
  const asking = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const question = 'freshclam, which fetches the signatures, is not installed. Install it with apt-get? [y/N] ';
    const answer = asking.question(question, { signal }).catch(() => '');
    // The end of the input (Ctrl-D) is no answer.
    return /^y(es)?$/i.test((await Promise.race([answer, once(asking, 'close').then(() => '')])).trim());
  } finally {
    asking.close();
  }
}

/** Resolves with its exit code, or with the signal or the error that ended it. */
function run(
  program: string,
  args: readonly string[],
  signal: AbortSignal,
  output: NodeJS.WriteStream | 'ignore' = process.stderr,
): Promise<number | string | null> {
  return new Promise((resolve) => {
    // An installation may ask for a password.
    const child = spawn(program, args, { stdio: ['inherit', output, output], signal });
    child.on('error', (error) => resolve(error.message));
    child.on('exit', (code, ended) => resolve(code ?? ended));
  });
}
