// The command line: its commands, their options and help, and the exit code of whatever comes out.
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { z } from 'zod';
import { ConfigError } from '../config.js';
import { packageJsonPath } from '../paths.js';
import { EXIT_CONFIG } from '../supervisor.js';
import { environmentHelp } from './environment.js';
import { EXIT_CLEAN, EXIT_FAILED, EXIT_SOFTWARE } from './exit-codes.js';

const SCAN_LIMITS = ['SCAN_MAX_SIZE_MB', 'SCAN_MAX_FILES', 'SCAN_MAX_RECURSION'];

const SERVE_HELP = `
The server runs in a process of its own, which is restarted with growing delays when it dies.
Exit codes: 0 stopped, 69 could not start (port in use, data folder locked), 70 a bug, 78 wrong configuration.
SIGTERM and SIGINT stop it after the requests in flight; a second one at once. SIGHUP reads the signatures again.

${environmentHelp()}`;

const SCAN_HELP = `
Folders are scanned with everything below them; links inside them are not followed. An empty file is clean.
A file over 200 MB, or one that the engine could not look at as a whole, is INCOMPLETE.
Exit codes: 0 everything is clean, 1 something is infected, 2 something failed or is incomplete and nothing is
infected, 78 wrong configuration, 130 interrupted.

${environmentHelp(['SIGNATURES_DIR', 'SCAN_THREADS', 'SCAN_TIMEOUT_MS', ...SCAN_LIMITS, 'ENCRYPTED_ARCHIVES'])}`;

const SIGNATURES_STATUS_HELP = `
Exit codes: 0 every folder has databases, 2 one has none or can't be read, 78 wrong configuration.

${environmentHelp(['SIGNATURES_DIR', 'DATA_DIR', 'PORT', 'HOST'])}`;

const SIGNATURES_CHECK_HELP = `
Nothing is changed, and a running server isn't told. It takes the memory of one engine.
Exit codes: 0 they load and pass the self-test, 2 they don't, 78 wrong configuration.

${environmentHelp(['SIGNATURES_DIR', 'DATA_DIR'])}`;

const SIGNATURES_UPDATE_HELP = `
Downloads are done by ClamAV's freshclam (Debian: apt-get install clamav-freshclam). The new signatures are loaded and
tried in this process, beside what serves; only then each file is put in its place by a rename. A running server notices
by itself (SIGNATURES_POLL_SECONDS), or at once on SIGHUP.
Exit codes: 0 done, or nothing newer; 2 nothing was changed, 78 wrong configuration, 130 interrupted.

${environmentHelp(['SIGNATURES_MIRROR', 'SIGNATURES_URLS', 'SIGNATURES_DIR', 'DATA_DIR'])}`;

/** Resolves with the exit code. */
export async function run(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  let exitCode = EXIT_CLEAN;
  // A command's modules are loaded when it runs: a scan needs no HTTP server.
  const program = new Command('sluice')
    .description('A malware scanning service: an upload in, an honest verdict out.')
    .version(version(), '--version', 'print the version')
    .helpOption('--help', 'print this help')
    .helpCommand(false)
    .showHelpAfterError('(--help says what there is)')
    .exitOverride();
  program
    .command('serve')
    .description('run the service; it is configured by environment variables')
    .option('--no-supervisor', 'run the server in this process: for whoever restarts it himself')
    .addHelpText('after', SERVE_HELP)
    .action(async (options: { supervisor: boolean }) => {
      exitCode = options.supervisor
        ? await (await import('./serve.js')).serve(env)
        : await (await import('./server-process.js')).runServer(env);
    });
  program
    .command('scan')
    .description('scan files and folders on this machine')
    .argument('<path...>', 'files and folders')
    .option('--json', 'print one JSON document', false)
    .addHelpText('after', SCAN_HELP)
    .action(async (paths: string[], options: { json: boolean }) => {
      exitCode = await (await import('./scan.js')).scan({ paths, json: options.json }, env);
    });
  const signatures = program.command('signatures').description('show, try and update the signatures');
  signatures
    .command('status')
    .description('what is in the signature folders, and what a server on this machine has loaded of it')
    .option('--json', 'print one JSON document', false)
    .addHelpText('after', SIGNATURES_STATUS_HELP)
    .action(async (options: { json: boolean }) => {
      exitCode = await (await import('./signatures-status.js')).signaturesStatus(options, env);
    });
  signatures
    .command('check')
    .description('load signatures in this process and try the engine that they make')
    .argument('[folder...]', 'folders with signatures (default: the configured ones)')
    .addHelpText('after', SIGNATURES_CHECK_HELP)
    .action(async (folders: string[]) => {
      exitCode = await (await import('./signatures-check.js')).signaturesCheck(folders, env);
    });
  signatures
    .command('update')
    .description('download newer signatures, or import a folder, and put them in place once they have been tried')
    .option('--from <folder>', 'take them from a folder, without a network')
    .option('--into <folder>', 'where they go (default: the first configured folder that is not of the project)')
    .addHelpText('after', SIGNATURES_UPDATE_HELP)
    .action(async (options: { from?: string; into?: string }) => {
      exitCode = await (await import('./signatures-update.js')).signaturesUpdate(options, env);
    });
  try {
    await program.parseAsync(argv);
    return exitCode;
  } catch (error) {
    return exitCodeOf(error);
  }
}

function exitCodeOf(error: unknown): number {
  // It has been printed: help and version end with 0, bad usage with anything else.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_CLEAN : EXIT_FAILED;
  if (error instanceof ConfigError) {
    process.stderr.write(`${error.message}\n`);
    return EXIT_CONFIG;
  }
  process.stderr.write(`sluice: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return EXIT_SOFTWARE;
}

function version(): string {
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(packageJsonPath, 'utf8'))).version;
}
