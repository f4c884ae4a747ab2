// The commands about accounts: their arguments, options and help, and the exit code of what comes out.
import type { Command } from 'commander';
import { type Config, readConfig } from '../config/config.js';
import { EXIT_CLEAN, environmentHelp } from './output.js';
import { findService } from './service-place.js';

const COMMON_HELP = `
Works on the store of a service, beside running servers or without them, and never makes one: on DATABASE_URL, or on what the service in DATA_DIR
uses. Without both they are looked for in /etc/sluice.env, ./data, the folder "data" of the program and /var/lib/sluice.
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

interface CommonOptions {
  readonly json: boolean;
  readonly dataDir?: string;
}

export type DataPlace = Pick<CommonOptions, 'dataDir'>;
/** `work` resolves with the exit code. */
type RunWithConfig = (place: DataPlace, work: (config: Config) => Promise<number>) => Promise<void>;
type Work<Given> = (config: Config, given: Given) => Promise<void>;

/** `load`: what it does with its arguments and options, by their names. It is loaded when the command runs. */
function addCommand<Given>(
  to: Command,
  run: RunWithConfig,
  [usage, about, help = COMMON_HELP]: readonly [usage: string, about: string, help?: string],
  load: () => Promise<Work<Given>>,
): Command {
  const command = to.command(usage).description(about);
  command.option(...JSON_OPTION).option(...DATA_DIR_OPTION);
  command.addHelpText('after', help);
  return command.action(async () => {
    const values = command.registeredArguments.map((argument, at) => [argument.name(), command.processedArgs[at]]);
    const given = { ...command.opts<CommonOptions & Given>(), ...Object.fromEntries(values) };
    await run(given, async (config) => {
      await (await load())(config, given);
      return EXIT_CLEAN;
    });
  });
}

/** With the folder that was named, also one that no service has used yet. */
export function placed(env: NodeJS.ProcessEnv, { dataDir }: DataPlace): NodeJS.ProcessEnv {
  const { DATABASE_URL: _, ...rest } = env;
  return dataDir === undefined ? env : { ...rest, DATA_DIR: dataDir };
}

const users = () => import('./users.js');
const stores = () => import('./store.js');

export function addAccountCommands(program: Command, env: NodeJS.ProcessEnv, finish: (exitCode: number) => void): void {
  const run: RunWithConfig = async ({ dataDir }, work) => {
    finish(await work(readConfig(findService(env, { dataDirectory: dataDir ?? null }))));
  };
  const runOnNew: RunWithConfig = async (place, work) => finish(await work(readConfig(placed(env, place))));
  const user = program.command('user').description('accounts: who has one, and what each may').helpCommand(false);
  addUserCommands(user, run);
  addStandingCommands(user, run);
  const audit = ['audit', 'what operators and commands did to accounts, the newest first'] as const;
  addCommand(program, run, audit, async () => (await users()).showAudit)
    .option('--email <email>', 'only what was done to this account, also when it was deleted')
    .option('--rows <rows>', 'at most so many', '100');
  program
    .command('billing')
    .description('what users pay for')
    .helpCommand(false)
    .command('reconcile')
    .description('read every customer from Stripe and repair their plans')
    .option(...DATA_DIR_OPTION)
    .addHelpText('after', RECONCILE_HELP)
    .action((options: DataPlace) =>
      run(options, async (config) => (await import('./billing.js')).reconcileBilling(config)),
    );
  const backup = ['backup', 'write all that the database has into a file', BACKUP_HELP] as const;
  addCommand(program, run, backup, async () => (await stores()).backUp).argument(
    '<file>',
    'a new one, such as sluice-2026-01-31.backup',
  );
  const restore = ['restore', 'make a store of what a backup has', RESTORE_HELP] as const;
  addCommand(program, runOnNew, restore, async () => (await stores()).restore).argument(
    '<file>',
    'that `sluice backup` has written',
  );
  addKeyCommands(program.command('key').description('API keys: create, list, revoke').helpCommand(false), run);
}

const BACKUP_HELP = `
All of the database as one moment has it, beside a running service: accounts, keys, sessions, history, audit log. Not in it: the signatures, contents
that wait for a scan, and scans of the last second, which are still in the journal.
${COMMON_HELP}`;

const RESTORE_HELP = `
Into DATA_DIR, or DATABASE_URL, that no service has used yet; what isn't there is made. All of it is restored, or nothing: nothing else opens
a store where this has not come to its end, until it is given again. The file may be an older version's.
Exit codes: 0 all of it is restored, 2 nothing was (the reason is on stderr), 78 wrong configuration.

${environmentHelp(['DATABASE_URL', 'DATABASE_USER', 'DATA_DIR'])}`;

const RECONCILE_HELP = `
The service does this every night at 03:00 UTC; here it is done at once, beside a running service or without one. Customers are
read page by page; a running service learns of new plans within a minute.
Exit codes: 0 every customer was read, 2 some could not be, or another process is at it, 78 wrong configuration, or
billing is off, 130 interrupted.

${environmentHelp(['DATABASE_URL', 'DATA_DIR', 'BASE_URL', 'PLANS', 'STRIPE_SECRET_KEY', 'STRIPE_WEBHOOK_SECRET', 'STRIPE_PRICES', 'STRIPE_API_BASE', 'LOG_LEVEL'])}`;

function addUserCommands(user: Command, run: RunWithConfig): void {
  const password = ['--password-stdin', 'read the password from stdin, 12 to 128 characters', false] as const;
  addCommand(user, run, ['add <email>', 'make an account', ADD_HELP], async () => (await users()).addUser)
    .option('--name <name>', 'what the account is called, up to 100 characters', '')
    .option('--plan <plan>', 'one of PLANS; without it the one with the fewest scans')
    .option(...password);
  const list = ['list', 'list the accounts, with how many keys each has'] as const;
  addCommand(user, run, list, async () => (await users()).showUsers);
  const renew = 'give an account another password, and end all of its sessions';
  addCommand(user, run, ['password <email>', renew, PASSWORD_HELP], async () => (await users()).resetPassword).option(
    ...password,
  );
  const reset = ['reset <email>', 'print an address where the owner of an account sets another password'] as const;
  addCommand(user, run, reset, async () => (await users()).printReset);
  const off = 'let an account sign in with its password alone, for who has lost phone and recovery codes';
  addCommand(user, run, ['two-factor-off <email>', off], async () => (await users()).turnTwoFactorOff);
}

function addStandingCommands(user: Command, run: RunWithConfig): void {
  const plan = ['set-plan <email>', 'put an account on another plan', PLAN_HELP] as const;
  addCommand(user, run, plan, async () => (await users()).setPlan).argument('<plan>', 'one of PLANS');
  const limit = ['set-limit <email>', 'give an account scans per hour of its own'] as const;
  addCommand(user, run, limit, async () => (await users()).setLimit).argument(
    '<limit>',
    "scans per hour, or `plan` for the plan's",
  );
  const role = ['set-role <email>', 'make an account an operator, or no operator any more', ROLE_HELP] as const;
  addCommand(user, run, role, async () => (await users()).setRole).argument('<role>', 'user or operator');
  const suspend = 'end the sessions of an account, and refuse its sign-ins and keys';
  addCommand(user, run, ['suspend <email>', suspend, SUSPEND_HELP], async () => (await users()).suspend);
  const restore = ['restore <email>', 'let a suspended account sign in and scan again'] as const;
  addCommand(user, run, restore, async () => (await users()).restore);
  const remove = ['delete <email>', 'delete an account with its keys and scans, for good', DELETE_HELP] as const;
  addCommand(user, run, remove, async () => (await users()).remove).option('--yes', 'it is meant', false);
}

function addKeyCommands(key: Command, run: RunWithConfig): void {
  const create = ['create', 'make an API key and print its value, once'] as const;
  addCommand(key, run, create, async () => (await users()).createUserKey)
    .argument('<email>', 'whose key it is')
    .requiredOption('--name <name>', 'what the key is called, 1 to 100 characters')
    .option('--expires <time>', 'UTC, such as 2030-01-31T00:00:00; from then on the key is refused')
    .option('--hourly-limit <scans>', 'scans per hour of this key alone')
    .option('--scopes <scopes>', 'what it is for: scan, read, or both with a comma between them', 'scan,read');
  const list = ['list <email>', "list an account's live keys, the newest first"] as const;
  addCommand(key, run, list, async () => (await users()).showKeys);
  addCommand(
    key,
    run,
    ['revoke', 'end a key for good', REVOKE_HELP],
    async () => (await users()).revokeUserKey,
  ).argument('<uuid>', "the key's uuid");
}
