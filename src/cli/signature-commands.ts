// The commands `sluice signatures status|check|tune|update`: what they take and say of themselves.
import type { Command } from 'commander';
import { environmentHelp } from './output.js';

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

/** `finish` is called with the exit code. */
export function addSignatureCommands(
  program: Command,
  env: NodeJS.ProcessEnv,
  finish: (exitCode: number) => void,
): void {
  const signatures = program
    .command('signatures')
    .description('signatures: status, check, tune, update')
    .helpCommand(false);
  signatures
    .command('status')
    .description('what is in the signature folders, and what a server on this machine has loaded of it')
    .option('--json', 'print one JSON document', false)
    .addHelpText('after', SIGNATURES_STATUS_HELP)
    .action(async (options: { json: boolean }) => {
      finish(await (await import('./signatures-status.js')).signaturesStatus(options, env));
    });
  signatures
    .command('check')
    .description('load signatures in this process and try the engine that they make')
    .argument('[folder...]', 'folders with signatures (default: the configured ones)')
    .addHelpText('after', SIGNATURES_CHECK_HELP)
    .action(async (folders: string[]) => {
      finish(await (await import('./signatures-status.js')).signaturesCheck(folders, env));
    });
  signatures
    .command('tune')
    .description('learn from clean files what gates must not be made of (ENGINE_GATES)')
    .argument('<path...>', 'clean files, and folders of them')
    .addHelpText('after', SIGNATURES_TUNE_HELP)
    .action(async (paths: string[]) => {
      finish(await (await import('./signatures-tune.js')).signaturesTune(paths, env));
    });
  signatures
    .command('update')
    .description('download newer signatures, or import a folder, and put them in place once they have been tried')
    .option('--from <folder or URL>', 'take them from a folder, a mirror, or the URL of one file')
    .option('--into <folder>', 'where they go (default: the first configured folder that is not of the project)')
    .option('--yes', 'install freshclam without asking, where it is missing', false)
    .addHelpText('after', SIGNATURES_UPDATE_HELP)
    .action(async (options: { from?: string; into?: string; yes: boolean }) => {
      finish(await (await import('./signatures-update.js')).signaturesUpdate(options, env));
    });
}
