// The commands about accounts: their arguments, options and help, and the exit code of what comes out.
import type { Command } from 'commander';
import { type Config, readConfig } from '../config/config.js';
import { StoreError } from '../store/store-error.js';
import { EXIT_CLEAN, EXIT_FAILED, environmentHelp, Refusal } from './output.js';
import { findService } from './service-place.js';
import type { NewKeyOptions } from './users.js';

const COMMON_HELP = `
Works on the store of a service, beside running servers or without them, and never makes one: on DATABASE_URL, or on what the service in DATA_DIR
uses. Without both they are looked for in /etc/sluice.env, ./data and /var/lib/sluice.
Running servers hear of a change at once with REDIS_URL, otherwise within 15 seconds.
Exit codes: 0 done, 2 not done (the reason is on stderr), 78 wrong configuration.

${environmentHelp(['DATABASE_URL', 'DATABASE_USER', 'DATA_DIR', 'REDIS_URL', 'PLANS'])}`;

const ADD_HELP = `
Without --password-stdin a random password is made and printed, once. The address is stored in lower case.
${COMMON_HELP}`;

const PASSWORD_HELP = `
Without --password-stdin a random password is made and printed, once. All sessions of the account end, on every server and
at once; its API keys stay (\`sluice key list\`, \`sluice key revoke\`).
${COMMON_HELP}`;

const PLAN_HELP = `
Where billing is on, a subscription decides about the plan of who has one: the next reading from Stripe sets it again.
${COMMON_HELP}`;

const ROLE_HELP = `
An operator sees and changes all accounts in the web client, under /admin. The first account of a service is one.
${COMMON_HELP}`;

const SUSPEND_HELP = `
Nothing of the account is lost. When it ends with 2 because Redis does not answer, the account is suspended in the database but not yet everywhere:
run it again.
${COMMON_HELP}`;

const DELETE_HELP = `
The account's scans go as well. An account with a subscription at Stripe is not deleted: cancel it there first. The audit log keeps its address.
${COMMON_HELP}`;

const REVOKE_HELP = `
The key is named by its uuid or by its value. When it ends with 2 because Redis does not answer, the key is revoked in the
database but not yet everywhere: run it again.
${COMMON_HELP}`;

export const DATA_DIR_OPTION = [
  '--data-dir <dir>',
  'the data folder of the service, in place of what is looked for',
] as const;
const JSON_OPTION = ['--json', 'print one JSON document', false] as const;

/** `usage`: its name, and arguments that need no words. */
function addCommand(to: Command, usage: string, about: string, help = COMMON_HELP): Command {
  return to
    .command(usage)
    .description(about)
    .option(...JSON_OPTION)
    .option(...DATA_DIR_OPTION)
    .addHelpText('after', help);
}

/** Of every command about accounts. */
interface Common {
  readonly json: boolean;
  readonly dataDir?: string;
}
type Place = Pick<Common, 'dataDir'>;

// What a command needs is loaded when it runs.
const users = () => import('./users.js');
const userChanges = () => import('./user-changes.js');
const backups = () => import('./backup.js');

/** `finish` gets the exit code. */
export function addAccountCommands(program: Command, env: NodeJS.ProcessEnv, finish: (exitCode: number) => void): void {
  const run: Run = async ({ dataDir }, work) => {
    // The reader has seen enough (`sluice user list | head -1`).
    process.stdout.on('error', () => undefined);
    finish(await exitCodeOf(() => work(readConfig(findService(env, { dataDirectory: dataDir ?? null })))));
  };
  const user = program.command('user').description('accounts: who has one, and what each may').helpCommand(false);
  addUserCommands(user, run);
  addStandingCommands(user, run);
  addRecoveryCommands(user, run);
  addCommand(program, 'audit', 'what operators and commands did to accounts, the newest first')
    .option('--email <email>', 'only what was done to this account')
    .option('--rows <rows>', 'at most so many', '100')
    .action((options: Common & { email?: string; rows: string }) =>
      run(options, async (config) => (await userChanges()).showAudit(config, options)),
    );
  addBackupCommands(program, env, finish, run);
  addKeyCommands(program.command('key').description('API keys: create, list, revoke').helpCommand(false), run);
}

const BACKUP_HELP = `
All of the database as one moment has it, beside a running service: accounts, keys, sessions, history, audit log. Not in it: the signatures, contents
that wait for a scan, and scans of the last second, which are still in the journal.
${COMMON_HELP}`;

const RESTORE_HELP = `
Into DATA_DIR, or DATABASE_URL, that no service has used yet; what isn't there is made. All of it is restored, or nothing. The version of Sluice must be the one
that made the file.
${environmentHelp(['DATABASE_URL', 'DATABASE_USER', 'DATA_DIR'])}`;

function addBackupCommands(program: Command, env: NodeJS.ProcessEnv, finish: (exitCode: number) => void, run: Run) {
  addCommand(program, 'backup', 'write all that the database has into a file', BACKUP_HELP)
    .argument('<file>', 'a new one, such as sluice-2026-01-31.backup')
    .action((file: string, options: Common) =>
      run(options, async (config) => (await backups()).backUp(config, { file, ...options })),
    );
  addCommand(program, 'restore', 'make a store of what a backup has', RESTORE_HELP)
    .argument('<file>', 'that `sluice backup` has written')
    .action(async (file: string, options: Common) => {
      const { DATABASE_URL: _, ...rest } = env;
      const place = options.dataDir === undefined ? env : { ...rest, DATA_DIR: options.dataDir };
      finish(await exitCodeOf(async () => (await backups()).restore(readConfig(place), { file, ...options })));
    });
}

type Run = (place: Place, work: (config: Config) => Promise<void>) => Promise<void>;

function addUserCommands(user: Command, run: Run): void {
  addCommand(user, 'add <email>', 'make an account', ADD_HELP)
    .option('--name <name>', 'what the account is called, up to 100 characters', '')
    .option('--plan <plan>', 'one of PLANS; without it the one with the fewest scans')
    .option('--password-stdin', 'read the password from stdin, 12 to 128 characters', false)
    .action((email: string, options: Common & { name: string; plan?: string; passwordStdin: boolean }) =>
      run(options, async (config) => (await users()).addUser(config, { email, ...options })),
    );
  addCommand(user, 'list', 'list the accounts, with how many keys each has').action((options: Common) =>
    run(options, async (config) => (await users()).showUsers(config, options)),
  );
  addCommand(user, 'set-plan <email>', 'put an account on another plan', PLAN_HELP)
    .argument('<plan>', 'one of PLANS')
    .action((email: string, plan: string, options: Common) =>
      run(options, async (config) => (await userChanges()).setPlan(config, { email, plan, ...options })),
    );
  addCommand(user, 'password <email>', 'give an account another password, and end all of its sessions', PASSWORD_HELP)
    .option('--password-stdin', 'read the password from stdin, 12 to 128 characters', false)
    .action((email: string, options: Common & { passwordStdin: boolean }) =>
      run(options, async (config) => (await users()).resetPassword(config, { email, ...options })),
    );
}

function addRecoveryCommands(user: Command, run: Run): void {
  addCommand(user, 'reset <email>', 'print an address where the owner of an account sets another password').action(
    (email: string, options: Common) =>
      run(options, async (config) => (await users()).printReset(config, { email, ...options })),
  );
  addCommand(
    user,
    'two-factor-off <email>',
    'let an account sign in with its password alone, for who has lost phone and recovery codes',
  ).action((email: string, options: Common) =>
    run(options, async (config) => (await users()).turnTwoFactorOff(config, { email, ...options })),
  );
}

function addStandingCommands(user: Command, run: Run): void {
  addCommand(user, 'set-limit <email>', 'give an account scans per hour of its own')
    .argument('<limit>', "scans per hour, or `plan` for the plan's")
    .action((email: string, limit: string, options: Common) =>
      run(options, async (config) => (await userChanges()).setLimit(config, { email, limit, ...options })),
    );
  addCommand(user, 'set-role <email>', 'make an account an operator, or no operator any more', ROLE_HELP)
    .argument('<role>', 'user or operator')
    .action((email: string, role: string, options: Common) =>
      run(options, async (config) => (await userChanges()).setRole(config, { email, role, ...options })),
    );
  addCommand(
    user,
    'suspend <email>',
    'end the sessions of an account, and refuse its sign-ins and keys',
    SUSPEND_HELP,
  ).action((email: string, options: Common) =>
    run(options, async (config) => (await userChanges()).suspend(config, { email, ...options })),
  );
  addCommand(user, 'restore <email>', 'let a suspended account sign in and scan again').action(
    (email: string, options: Common) =>
      run(options, async (config) => (await userChanges()).restore(config, { email, ...options })),
  );
  addCommand(user, 'delete <email>', 'delete an account with its keys and scans, for good', DELETE_HELP)
    .option('--yes', 'it is meant', false)
    .action((email: string, options: Common & { yes: boolean }) =>
      run(options, async (config) => (await userChanges()).remove(config, { email, ...options })),
    );
}

function addKeyCommands(key: Command, run: Run): void {
  addCommand(key, 'create', 'make an API key and print its value, once')
    .argument('<email>', 'whose key it is')
    .requiredOption('--name <name>', 'what the key is called, 1 to 100 characters')
    .option('--expires <time>', 'UTC, such as 2030-01-31T00:00:00; from then on the key is refused')
    .option('--hourly-limit <scans>', 'scans per hour of this key alone')
    .option('--scopes <scopes>', 'what it is for: scan, read, or both with a comma between them', 'scan,read')
    .action((email: string, options: Common & Omit<NewKeyOptions, 'email'>) =>
      run(options, async (config) => (await users()).createUserKey(config, { email, ...options })),
    );
  addCommand(key, 'list <email>', "list an account's live keys, the newest first").action(
    (email: string, options: Common) =>
      run(options, async (config) => (await users()).showKeys(config, { email, ...options })),
  );
  addCommand(key, 'revoke', 'end a key for good', REVOKE_HELP)
    .argument('<uuid>', "the key's uuid")
    .action((uuid: string, options: Common) =>
      run(options, async (config) => (await users()).revokeUserKey(config, { key: uuid, ...options })),
    );
}

async function exitCodeOf(work: () => Promise<void>): Promise<number> {
  try {
    await work();
    return EXIT_CLEAN;
  } catch (error) {
    if (!(error instanceof Refusal) && !(error instanceof StoreError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return EXIT_FAILED;
  }
}
