// ClamAV's own downloader, freshclam, run once over a folder with a configuration of ours that exists as long as it runs.
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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
    return await run([`--config-file=${path}`, '--stdout', ...only, ...progress], options.signal);
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

function run(args: readonly string[], signal: AbortSignal): Promise<string | null> {
  return new Promise((resolve) => {
    const child = spawn('freshclam', args, { stdio: ['ignore', process.stderr, process.stderr], signal });
    child.on('error', (error) => {
      const missing = 'code' in error && error.code === 'ENOENT';
      resolve(missing ? 'freshclam is not installed (Debian: apt-get install clamav-freshclam)' : error.message);
    });
    child.on('exit', (code, ended) => {
      resolve(code === 0 ? null : `freshclam ended with ${code ?? ended}`);
    });
  });
}
