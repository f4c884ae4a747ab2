// `sluice user` and `sluice key`: accounts made, listed, changed and deleted; keys made, listed and ended; and `sluice audit`, which shows who has done it.
import { randomBytes } from 'node:crypto';
import { userInfo } from 'node:os';
import type { z } from 'zod';
import { createdView, LimitFields, limitsIn, listedView } from '../account/key-routes.js';
import { createKeyWithinLimit, LIVE_KEYS_MAX, listKeys, NO_LIMITS } from '../account/keys.js';
import { endTwoFactor } from '../account/protection.js';
import { createReset, RESET_MINUTES, resetAddress } from '../account/resets.js';
import { endOtherSessions } from '../account/sessions.js';
import {
  allowanceOf,
  changeUser,
  createUser,
  EmailField,
  findUser,
  findUserByEmail,
  hashPassword,
  hasUsers,
  listUsers,
  NameField,
  NewPasswordField,
  normaliseEmail,
  Role,
  SomeNameField,
  type UserRow,
  userView,
} from '../account/users.js';
import type { Config } from '../config/config.js';
import { freePlanOf, limitOf, planNamed } from '../config/plans.js';
import { Failure } from '../errors.js';
import { wordsFor } from '../http/json.js';
import {
  type AccountChange,
  type Actor,
  changeAccount,
  deleteAccount,
  endKeyOf,
  eraseScans,
  LIMIT_MAX,
  listAudit,
  type Nodes,
  record,
} from '../operator/changes.js';
import type { Queries } from '../store/postgres.js';
import { wireTime } from '../wire-text.js';
import { counted, escapeText, type OutputOptions, print, Refusal, safeJson, table } from './output.js';
import { NODES_ASK_SECONDS, withNodes, withStore } from './store.js';

/** 24 characters of base64url. */
const PASSWORD_BYTES = 18;
/** A password of 128 characters is far below. */
const STDIN_BYTES = 16 * 1024;

interface OfAccount extends OutputOptions {
  readonly email: string;
}

export interface NewAccount extends OfAccount {
  readonly name: string;
  readonly plan?: string;
  readonly passwordStdin: boolean;
}

export async function addUser(config: Config, options: NewAccount): Promise<void> {
  const email = normaliseEmail(checked('EMAIL', EmailField, options.email));
  const name = checked('--name', NameField, options.name);
  const plan = options.plan ?? freePlanOf(config.plans).name;
  assertPlan(config, plan);
  const { passwordHash, shown } = await choosePassword(options);
  const user = await withOneTransaction(config, async (tx) => {
    // Who makes the first account has the machine.
    const role = (await hasUsers(tx)) ? 'user' : 'operator';
    const created = await createUser(tx, { email, name, passwordHash, plan, role });
    if (created.outcome === 'emailTaken') throw new Refusal(`${escapeText(email)} has an account already`);
    await record(tx, commandActor(), {
      action: 'account.add',
      target: { id: created.userId, email },
      detail: { plan, role },
    });
    return await findUser(tx, created.userId);
  });
  if (user === null) throw new Refusal(`${escapeText(email)} was made and is gone again`);
  if (options.json) return print(`${safeJson({ ...userView(user, config.plans), ...shown })}\n`);
  print(`${escapeText(email)} has an account on the plan ${plan}.\n${sentenceOf(shown)}`);
}

/** It ends the sessions that the old one opened: servers ask the database for each session. */
export async function resetPassword(
  config: Config,
  options: OfAccount & { readonly passwordStdin: boolean },
): Promise<void> {
  const { passwordHash, shown } = await choosePassword(options);
  const user = await withStore(config, async (sql) => {
    const { id } = await userOf(sql, options.email);
    const change = { name: null, email: null, passwordHash, verifiedHash: null };
    const result = await changeUser(sql, id, change, async (tx) => {
      await endOtherSessions(tx, id, null);
      await record(tx, commandActor(), {
        action: 'account.password',
        target: { id, email: normaliseEmail(options.email) },
      });
    });
    if (result.outcome !== 'changed') throw unknownUser(options.email);
    return result.user;
  });
  if (options.json) return print(`${safeJson({ ...userView(user, config.plans), ...shown })}\n`);
  print(`${escapeText(user.email)} has another password, and no session any more.\n${sentenceOf(shown)}`);
}

/** Prints the address that sets another password; nothing changes until it is used. */
export async function printReset(config: Config, options: OfAccount): Promise<void> {
  const token = await withOneTransaction(config, async (tx) => {
    const user = await userOf(tx, options.email);
    await record(tx, commandActor(), { action: 'account.reset', target: user });
    return await createReset(tx, user, Date.now());
  });
  if (token === null) throw unknownUser(options.email);
  const address = resetAddress(config.baseUrl, token);
  if (options.json) return print(`${safeJson({ address, token, minutes: RESET_MINUTES })}\n`);
  const where = config.baseUrl === null ? ' Put the address of the dashboard in front.' : '';
  print(`${address}\nSets another password, once, within ${RESET_MINUTES} minutes; sessions end then.${where}\n`);
}

export async function turnTwoFactorOff(config: Config, options: OfAccount): Promise<void> {
  const user = await withOneTransaction(config, async (tx) => {
    const user = await userOf(tx, options.email);
    await endTwoFactor(tx, user.id);
    await record(tx, commandActor(), { action: 'account.two-factor', target: user, detail: { to: 'off' } });
    return user;
  });
  if (options.json) return print(`${safeJson({ email: user.email, twoFactor: false })}\n`);
  print(`${escapeText(user.email)} signs in with the password alone.\n`);
}

/** `shown` is empty when the operator knows the value already. */
async function choosePassword({ passwordStdin }: { readonly passwordStdin: boolean }) {
  const given = passwordStdin ? checked('The password', NewPasswordField, await readStdin()) : null;
  const password = given ?? randomBytes(PASSWORD_BYTES).toString('base64url');
  const shown: { password?: string } = given === null ? { password } : {};
  return { passwordHash: await hashPassword(password), shown };
}

function sentenceOf({ password }: { readonly password?: string }): string {
  return password === undefined ? '' : `Its password, which is not shown again: ${password}\n`;
}

export async function showUsers(config: Config, { json }: OutputOptions): Promise<void> {
  const users = await withStore(config, listUsers);
  const views = users.map((user) => ({ ...viewOf(user, config), keys: user.keys }));
  if (json) return print(`${safeJson(views)}\n`);
  const rows = views.map(({ id, email, name, role, suspended, plan, hourlyLimit, keys, creationDate }) => [
    ...[email, name, suspended ? 'suspended' : role, plan, hourlyLimit, keys],
    ...[creationDate, id],
  ]);
  print(table(['E-MAIL', 'NAME', 'ROLE', 'PLAN', 'SCANS/H', 'KEYS', 'CREATED (UTC)', 'ID'], rows));
}

export function viewOf(user: UserRow, config: Config) {
  return { ...userView(user, config.plans), ownLimit: user.own_limit, suspended: user.suspended_at !== null };
}

/** For what is changed with its line of the audit log: both, or neither. */
async function withOneTransaction<T>(config: Config, work: (tx: Queries) => Promise<T>): Promise<T> {
  return await withStore(config, (sql) => sql.transaction('readCommitted', work));
}

/** For the audit log: who may run the command has the machine. */
export function commandActor(): Actor {
  return { userId: null, name: `command line (${process.env['SUDO_USER'] ?? accountName()})`, address: null };
}

function accountName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container's account may have no name.
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** Throws Refusal when nobody has the address. */
export async function userOf(sql: Queries, email: string): Promise<UserRow> {
  const user = await findUserByEmail(sql, email);
  if (user === null) throw unknownUser(email);
  return user;
}

export function unknownUser(email: string): Refusal {
  return new Refusal(`No account has the address ${escapeText(email)}; \`sluice user list\` shows those there are`);
}

/** The text as the field takes it; throws Refusal with what is wrong. */
export function checked<Value>(what: string, field: z.ZodType<Value>, text: unknown): Value {
  const parsed = field.safeParse(text, { error: wordsFor });
  if (parsed.success) return parsed.data;
  throw new Refusal(`${what} ${parsed.error.issues[0]?.message ?? 'is not valid'}`);
}

/** The number that the text is, from 1 on. Throws Refusal; `others`: what may be said instead. */
export function wholeNumber(what: string, text: string, most: number, others = ''): number {
  const number = /^\d+$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= most) return number;
  throw new Refusal(`${what} must be a whole number from 1 to ${most}${others}`);
}

export function assertPlan(config: Config, plan: string): void {
  if (planNamed(config.plans, plan) !== null) return;
  throw new Refusal(
    `There is no plan ${escapeText(plan)}; PLANS has ${config.plans.map(({ name }) => name).join(', ')}`,
  );
}

/** What comes in up to its end, without the line end that `echo` adds. */
async function readStdin(): Promise<string> {
  if (process.stdin.isTTY) throw new Refusal('--password-stdin reads from a pipe or a file: a terminal would show it');
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += String(chunk);
    if (text.length > STDIN_BYTES) throw new Refusal('What comes in is no password: it is too long');
  }
  return text.replace(/\r?\n$/, '');
}

interface NewKeyOptions extends OfAccount {
  readonly name: string;
  readonly expires?: string;
  readonly hourlyLimit?: string;
  readonly scopes: string;
}

export async function createUserKey(config: Config, options: NewKeyOptions): Promise<void> {
  const name = checked('--name', SomeNameField, options.name);
  const { expires, hourlyLimit, scopes } = options;
  const fields = {
    expires: checked('--expires', LimitFields.expires, expires),
    hourlyLimit: hourlyLimit === undefined ? undefined : wholeNumber('--hourly-limit', hourlyLimit, LIMIT_MAX),
    scopes: checked('--scopes', LimitFields.scopes, scopes.split(',')),
  };
  const key = await withOneTransaction(config, async (tx) => {
    const user = await userOf(tx, options.email);
    const within = { hourlyLimit: limitOf(config.plans, allowanceOf(user)), nowMs: Date.now() };
    const limits = { ...NO_LIMITS, ...limitsOf(fields, within) };
    const key = await createKeyWithinLimit(tx, { userId: user.id, name, limits });
    if (key !== null) {
      await record(tx, commandActor(), { action: 'key.create', target: user, detail: { key: key.keyId, name } });
    }
    return key;
  });
  if (key === null) throw new Refusal(`${escapeText(options.email)} has ${LIVE_KEYS_MAX} keys: revoke one first`);
  if (options.json) return print(`${safeJson(createdView(key))}\n`);
  print(`The key, which is not shown again: ${key.value}\nIts uuid: ${key.keyId}\n`);
}

/** What is wrong is said as of any other option. */
function limitsOf(...given: Parameters<typeof limitsIn>): ReturnType<typeof limitsIn> {
  try {
    return limitsIn(...given);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const [field = '', problem = ''] = error.message.split(': ');
    throw new Refusal(`${field === 'expires' ? '--expires' : '--hourly-limit'} ${problem}`);
  }
}

export async function showKeys(config: Config, options: OfAccount): Promise<void> {
  const keys = await withStore(config, async (sql) => await listKeys(sql, (await userOf(sql, options.email)).id));
  const views = keys.map(listedView);
  if (options.json) return print(`${safeJson(views)}\n`);
  const rows = views.map(({ uuid, name, value, creationDate, lastUse, expires, hourlyLimit, scopes }) => [
    ...[uuid, name, value, creationDate],
    ...[lastUse ?? 'never', expires ?? 'never', hourlyLimit ?? "the account's", scopes.join(',')],
  ]);
  print(table(['UUID', 'NAME', 'VALUE', 'CREATED (UTC)', 'LAST USE (UTC)', 'EXPIRES (UTC)', 'SCANS/H', 'FOR'], rows));
}

export async function revokeUserKey(config: Config, options: OutputOptions & { readonly uuid: string }): Promise<void> {
  const { ended, areTold } = await withStore(config, (sql) =>
    withNodes(config, async (nodes) => ({
      ended: await endKeyOf({ sql, nodes }, commandActor(), null, options.uuid).catch(refuseUnlessTold('the key')),
      areTold: nodes.areTold,
    })),
  );
  // It may have been given by its value, which must not be printed here.
  if (ended === null) throw new Refusal('There is no such live key; `sluice key list EMAIL` shows those there are');
  if (options.json) return print(`${safeJson({ uuid: ended.keyId, name: ended.name, userId: ended.userId })}\n`);
  const asks = config.databaseUrl !== null && !areTold;
  const when = asks ? `; a running server refuses it within ${NODES_ASK_SECONDS} seconds` : '';
  print(`The key ${ended.keyId} (${escapeText(ended.name)}) is revoked${when}.\n`);
}

export async function setPlan(config: Config, options: OfAccount & { readonly plan: string }): Promise<void> {
  assertPlan(config, options.plan);
  const { view, when } = await change(config, options, { plan: options.plan }, warnUnlessTold);
  say(options, view, `is on the plan ${view.plan}: ${counted(view.hourlyLimit, 'scan')} an hour${when}`);
}

export async function setLimit(config: Config, options: OfAccount & { readonly limit: string }): Promise<void> {
  const others = ", or `plan` for the plan's";
  const ownLimit = options.limit === 'plan' ? null : wholeNumber('The limit', options.limit, LIMIT_MAX, others);
  const { view, when } = await change(config, options, { ownLimit }, warnUnlessTold);
  say(
    options,
    view,
    `has ${counted(view.hourlyLimit, 'scan')} an hour, ${ownLimit === null ? 'as its plan has' : 'of its own'}${when}`,
  );
}

export async function setRole(config: Config, options: OfAccount & { readonly role: string }): Promise<void> {
  const role = checked('The role', Role, options.role);
  const { view } = await change(config, options, { role }, warnUnlessTold);
  say(options, view, role === 'operator' ? 'is an operator' : 'is no operator');
}

export async function suspend(config: Config, options: OfAccount): Promise<void> {
  const { view, when } = await change(config, options, { isSuspended: true }, refuseUnlessTold('its keys'));
  say(options, view, `is suspended: its sessions have ended, and its keys are refused${when}`);
}

export async function restore(config: Config, options: OfAccount): Promise<void> {
  const { view, when } = await change(config, options, { isSuspended: false }, warnUnlessTold);
  say(options, view, `may sign in and scan again${when}`);
}

export async function remove(config: Config, options: OfAccount & { readonly yes: boolean }): Promise<void> {
  if (!options.yes) throw new Refusal('This deletes the account with its keys and scans, for good: say --yes');
  const user = await withStore(config, async (sql) => {
    const user = await userOf(sql, options.email);
    const isGone = await withNodes(config, (nodes) =>
      deleteAccount({ sql, nodes }, commandActor(), user.id).catch(explainRemoval),
    );
    if (!isGone) throw unknownUser(options.email);
    await eraseScans(sql, new AbortController().signal);
    return user;
  });
  say(options, { email: user.email, id: user.id }, 'is gone, with its keys and scans');
}

type OnUntold = (error: unknown) => void;

async function change(config: Config, { email }: OfAccount, wanted: AccountChange, onUntold: OnUntold) {
  const { user, areTold } = await withStore(config, async (sql) => {
    const { id } = await userOf(sql, email);
    return await withNodes(config, async ({ areTold, ...told }) => {
      const nodes: Nodes = {
        revoke: told.revoke,
        setLimit: (userId, limit) => told.setLimit(userId, limit).catch(onUntold),
      };
      const user = await changeAccount({ sql, nodes, plans: config.plans }, commandActor(), id, wanted);
      if (user === null) throw unknownUser(email);
      return { user, areTold };
    });
  });
  const when = areTold ? '' : `; a running server follows within ${NODES_ASK_SECONDS} seconds`;
  return { view: viewOf(user, config), when };
}

function say<View extends { readonly email: string }>({ json }: OutputOptions, view: View, sentence: string): void {
  print(json ? `${safeJson(view)}\n` : `${escapeText(view.email)} ${sentence}.\n`);
}

function warnUnlessTold(error: unknown): void {
  if (!(error instanceof Failure)) throw error;
  process.stderr.write(`${error.message}: servers follow by themselves, some seconds after it is back\n`);
}

const refuseUnlessTold =
  (keys: string) =>
  (error: unknown): never => {
    if (!(error instanceof Failure)) throw error;
    throw new Refusal(`${error.message}. Not every server refuses ${keys} yet: run the same command again`);
  };

function explainRemoval(error: unknown): never {
  if (error instanceof Failure && error.code === 'conflict') throw new Refusal(error.message);
  return refuseUnlessTold('its keys')(error);
}

interface AuditOptions extends OutputOptions {
  readonly email?: string;
  readonly rows: string;
}

const ROWS_MAX = 100_000;

export async function showAudit(config: Config, { json, email, rows: asked }: AuditOptions): Promise<void> {
  const rows = wholeNumber('--rows', asked, ROWS_MAX);
  const lines = await withStore(config, async (sql) => {
    if (email === undefined) return await listAudit(sql, { before: null, targetId: null, rows });
    const user = await findUserByEmail(sql, email);
    // Of one that was deleted the log has the address that it had.
    const target = user === null ? normaliseEmail(email) : null;
    const found = await listAudit(sql, { before: null, targetId: user?.id ?? null, target, rows });
    if (user === null && found.length === 0) throw unknownUser(email);
    return found;
  });
  const views = lines.map(({ id, at, actor, address, action, target, detail }) => ({
    ...{ id, at: wireTime(at), actor, address, action, target, detail },
  }));
  if (json) return print(`${safeJson(views)}\n`);
  const cells = views.map(({ at, actor, address, action, target, detail }) => [
    ...[at, actor, address ?? '', action, target ?? ''],
    Object.keys(detail).length === 0 ? '' : JSON.stringify(detail),
  ]);
  print(table(['AT (UTC)', 'WHO', 'FROM', 'WHAT', 'TO WHOM', 'DETAIL'], cells));
}
