// The command line: its commands, their options and help, and the exit code of whatever comes out.
import { Command, CommanderError, type Option } from 'commander';
import { ConfigError, readVersion } from '../config/config.js';
import { StoreError } from '../store/store-error.js';
import { EXIT_CONFIG } from '../supervisor/slot.js';
import { addAccountCommands, DATA_DIR_OPTION, type DataPlace, placed } from './account-commands.js';
import { EXIT_CLEAN, EXIT_FAILED, EXIT_SOFTWARE, environmentHelp, Refusal } from './output.js';
import type { ScanCommand } from './scan.js';
import type { UpdateOptions } from './signatures-update.js';

const SCAN_LIMITS = ['SCAN_MAX_SIZE_MB', 'SCAN_MAX_FILES'];

const SERVE_HELP = `
The server runs in a process of its own, which is restarted when it dies, at once and then with growing delays, and replaced by another one
without a gap when a scan thread does not come back. The embedded database runs beside them.
Exit codes: 0 stopped, 69 could not start (port in use, data folder locked), 70 a bug, 78 wrong configuration.
SIGTERM and SIGINT stop it after the requests in flight; a second one at once. SIGHUP reads the signatures again,
but stops it when it comes from a terminal that is gone.
SIGUSR2 replaces the server process: the next one runs what is installed by then, and takes over when it can serve.

${environmentHelp()}`;

const SCAN_HELP = `
Folders are scanned with everything below them; links inside them are not followed. An empty file is clean, a pipe by which nothing comes has failed.
A file over SCAN_MAX_SIZE_MB (200), or one that the engine could not look at as a whole, is INCOMPLETE.
Signatures and variables are those of the service of this machine, if it is found: by DATA_DIR, /etc/sluice.env, the folder "data"
of the program, or /var/lib/sluice. From 8 MB on it scans with gates (ENGINE_GATES), the first time after some seconds: what they
are made of is kept in XDG_CACHE_HOME/sluice (~/.cache/sluice).
With --server no engine is loaded here: contents go to the server, which takes a unit of the key's hour for each and has 10 MB as
its limit. What it says of later (Retry-After) is waited for, also the end of the hour; an upload that is repeated is scanned once.
Exit codes: 0 everything is clean, 1 something is infected, 2 something failed or is incomplete and nothing is
infected, 78 wrong configuration, 130 interrupted.

${environmentHelp(['DATA_DIR', 'ENGINE', 'ENGINE_GATES', 'SIGNATURES_DIR', 'SCAN_THREADS', 'SCAN_TIMEOUT_MS', ...SCAN_LIMITS, 'SANDBOX', 'ENCRYPTED_ARCHIVES'])}`;

const STATUS_HELP = `
Engine and signatures, keys and quota, the database, and the journal of the history: how many rows wait for the database, and for how long.
Where the server is, its data folder knows: --data-dir, DATA_DIR, /etc/sluice.env, ./data, the folder "data" of
the program, or /var/lib/sluice; PORT and HOST say it themselves.
Exit codes: 0 scans are served, 2 they are not, or no server answers, 78 wrong configuration.

${environmentHelp(['DATA_DIR', 'PORT', 'HOST'])}`;

const CLAMD_CONFIG_HELP = `
What it prints is a file of the environment: lines of variables, and comments.
Exit codes: 0 done, 2 the file can't be read.`;

/** Resolves with the exit code. */
export async function run(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  let exitCode = EXIT_CLEAN;
  // A command's modules are loaded when it runs: a scan needs no HTTP server.
  const program = new Command('sluice')
    .description('A malware scanning service: an upload in, an honest verdict out.')
    .version(readVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .configureHelp({ optionDescription: described })
    .showHelpAfterError('(--help says what there is)')
    .exitOverride();
  program
    .command('serve')
    .description('run the service; it is configured by environment variables')
    .option('--no-supervisor', 'run the server in this process, without the one that restarts it')
    .addHelpText('after', SERVE_HELP)
    .action(async (options: { supervisor: boolean }) => {
      exitCode = options.supervisor
        ? await (await import('./serve.js')).serve(env)
        : await (await import('./server-process.js')).runServer(env);
    });
  const finish = (code: number): void => {
    exitCode = code;
  };
  addScanCommand(program, env, finish);
  program
    .command('status')
    .description('what a server on this machine says of its parts')
    .option('--json', 'print one JSON document', false)
    .option(...DATA_DIR_OPTION)
    .addHelpText('after', STATUS_HELP)
    .action(async (options: DataPlace & { json: boolean }) => {
      exitCode = await (await import('./status.js')).status(options, env);
    });
  program
    .command('clamd-config')
    .description('print the variables for a clamd.conf, and what of it has no counterpart')
    .argument('<file>', 'such as /etc/clamav/clamd.conf')
    .addHelpText('after', CLAMD_CONFIG_HELP)
    .action(async (path: string) => finish((await import('./clamd-config.js')).configFromClamd(path)));
  addSignatureCommands(program, env, finish);
  addAccountCommands(program, env, finish);
  try {
    await program.parseAsync(argv);
    return exitCode;
  } catch (error) {
    return exitCodeOf(error);
  }
}

/** That an option which is not given is not there needs no words. */
function described({ description, defaultValue }: Option): string {
  return typeof defaultValue === 'string' && defaultValue !== ''
    ? `${description} (default: ${defaultValue})`
    : description;
}

function addScanCommand(program: Command, env: NodeJS.ProcessEnv, finish: (exitCode: number) => void): void {
  program
    .command('scan')
    .description('scan files and folders of this machine, here or by a server')
    .argument('<path...>', 'files and folders; -: standard input')
    .option('--json', 'print one JSON document', false)
    .option('--infected-only', 'print infected files alone, and the summary', false)
    .option('--server <url>', 'upload them to this server, several at a time')
    .option(
      '--key <key>',
      'an API key of the server; better in SLUICE_API_KEY, where others on the machine do not see it',
    )
    .addHelpText('after', SCAN_HELP)
    .action(async (paths: string[], options: Omit<ScanCommand, 'paths'>) => {
      finish(await (await import('./scan.js')).scan({ paths, ...options }, env));
    });
}

function exitCodeOf(error: unknown): number {
  // It has been printed: help and version end with 0, bad usage with anything else.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_CLEAN : EXIT_FAILED;
  if (error instanceof ConfigError) {
    process.stderr.write(`${error.message}\n`);
    return EXIT_CONFIG;
  }
  if (error instanceof Refusal || error instanceof StoreError) {
    process.stderr.write(`${error.message}\n`);
    return EXIT_FAILED;
  }
  process.stderr.write(`sluice: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return EXIT_SOFTWARE;
}

const SIGNATURES_STATUS_HELP = `
Exit codes: 0 every folder has databases, 2 one has none or can't be read, 78 wrong configuration.

${environmentHelp(['SIGNATURES_DIR', 'DATA_DIR', 'PORT', 'HOST'])}`;

const SIGNATURES_CHECK_HELP = `
Nothing is changed, and a running server doesn't notice. It takes the memory of one engine.
Exit codes: 0 they load and pass the self-test, 2 they don't, or a rule file doesn't compile, 78 wrong configuration.

${environmentHelp(['ENGINE', 'SIGNATURES_DIR', 'DATA_DIR'])}`;

const SIGNATURES_TUNE_HELP = `
Needs ENGINE_GATES=on, as by default. Content of which no signature matches, but a gate does, is looked at twice. So bytes that are in one of
2,000 of the files, or more, are no gates any more. Each file is opened once; they should be clean, and like those that will be scanned.
What is learned is kept under DATA_DIR and holds from the next load of signatures on, also for newer signatures; a server that runs loads at
once on SIGHUP. A second run adds to it. A server learns by itself as well, of what it scans.
Exit codes: 0 done, 2 there is no file, or the signatures can't be read, 78 wrong configuration.

${environmentHelp(['ENGINE_GATES', 'SIGNATURES_DIR', 'DATA_DIR'])}`;

const SIGNATURES_UPDATE_HELP = `
Downloads are done by ClamAV's freshclam. Where it is missing it is installed with apt-get, after a question or with --yes. The new signatures are loaded and
tried in this process, beside what serves; only then each file is put in its place by a rename. A running server notices
by itself (SIGNATURES_POLL_SECONDS), or at once on SIGHUP.
Exit codes: 0 done, or nothing newer; 2 nothing was changed, 78 wrong configuration, 130 interrupted.

${environmentHelp(['SIGNATURES_MIRROR', 'SIGNATURES_URLS', 'ENGINE', 'SIGNATURES_DIR', 'DATA_DIR'])}`;

const commands = () => import('./signatures.js');

function addSignatureCommands(program: Command, env: NodeJS.ProcessEnv, finish: (exitCode: number) => void): void {
  const signatures = program
    .command('signatures')
    .description('signatures: status, check, tune, update')
    .helpCommand(false);
  /** `act` returns the exit code. */
  const add = <Args extends unknown[]>(
    [usage, about, help]: readonly [usage: string, about: string, help: string],
    act: (environment: NodeJS.ProcessEnv, ...args: Args) => Promise<number>,
  ): Command => {
    const command = signatures
      .command(usage)
      .description(about)
      .option(...DATA_DIR_OPTION)
      .addHelpText('after', help);
    return command.action(async (...args: Args) => finish(await act(placed(env, command.opts<DataPlace>()), ...args)));
  };
  const status = 'what is in the signature folders, and what a server on this machine has loaded of it';
  add(['status', status, SIGNATURES_STATUS_HELP], async (placed, options: { json: boolean }) =>
    (await commands()).signaturesStatus(options, placed),
  ).option('--json', 'print one JSON document', false);
  const check = 'load signatures in this process and try the engine that they make';
  add(['check', check, SIGNATURES_CHECK_HELP], async (placed, folders: string[]) =>
    (await commands()).signaturesCheck(folders, placed),
  ).argument('[folder...]', 'folders with signatures (default: the configured ones)');
  const tune = 'learn from clean files what gates must not be made of (ENGINE_GATES)';
  add(['tune', tune, SIGNATURES_TUNE_HELP], async (placed, paths: string[]) =>
    (await commands()).signaturesTune(paths, placed),
  ).argument('<path...>', 'clean files, and folders of them');
  const update = 'download newer signatures, or import a folder, and put them in place once they have been tried';
  add(['update', update, SIGNATURES_UPDATE_HELP], async (placed, options: UpdateOptions) =>
    (await import('./signatures-update.js')).signaturesUpdate(options, placed),
  )
    .option('--from <folder or URL>', 'take them from a folder, a mirror, or the URL of one file')
    .option('--into <folder>', 'where they go (default: the first configured folder that is not of the project)')
    .option('--yes', 'install freshclam without asking, where it is missing', false);
}
