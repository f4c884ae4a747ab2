// What operators may do on /admin as well: `sluice user set-plan`, `set-limit`, `set-role`, `suspend`, `restore` and `delete`, and `sluice audit`, which shows who has done it.

import { Role } from '../account/users.js';
import type { Config } from '../config/config.js';
import { Failure } from '../errors.js';
import { listAudit } from '../operator/audit.js';
import {
  type AccountChange,
  changeAccount,
  deleteAccount,
  eraseScans,
  LIMIT_MAX,
  type Nodes,
} from '../operator/changes.js';
import { wireTime } from '../wire-text.js';
import { escapeText, Refusal, safeJson, table } from './output.js';
import { NODES_ASK_SECONDS, withNodes, withStore } from './store.js';
import {
  assertPlan,
  checked,
  commandActor,
  type Output,
  print,
  unknownUser,
  userOf,
  viewOf,
  wholeNumber,
} from './users.js';

interface OfAccount extends Output {
  readonly email: string;
}

export async function setPlan(config: Config, options: OfAccount & { readonly plan: string }): Promise<void> {
  assertPlan(config, options.plan);
  const { view, when } = await change(config, options, { plan: options.plan }, warnUnlessTold);
  say(options, view, `is on the plan ${view.plan}: ${view.hourlyLimit} scans an hour${when}`);
}

export async function setLimit(config: Config, options: OfAccount & { readonly limit: string }): Promise<void> {
  const others = ", or `plan` for the plan's";
  const ownLimit = options.limit === 'plan' ? null : wholeNumber('The limit', options.limit, LIMIT_MAX, others);
  const { view, when } = await change(config, options, { ownLimit }, warnUnlessTold);
  say(
    options,
    view,
    `has ${view.hourlyLimit} scans an hour, ${ownLimit === null ? 'as its plan has' : 'of its own'}${when}`,
  );
}

export async function setRole(config: Config, options: OfAccount & { readonly role: string }): Promise<void> {
  const role = checked('The role', Role, options.role);
  const { view } = await change(config, options, { role }, warnUnlessTold);
  say(options, view, role === 'operator' ? 'is an operator' : 'is no operator');
}

export async function suspend(config: Config, options: OfAccount): Promise<void> {
  const { view, when } = await change(config, options, { isSuspended: true }, refuseUnlessTold);
  say(options, view, `is suspended: its sessions have ended, and its keys are refused${when}`);
}

export async function restore(config: Config, options: OfAccount): Promise<void> {
  const { view, when } = await change(config, options, { isSuspended: false }, warnUnlessTold);
  say(options, view, `may sign in and scan again${when}`);
}

export async function remove(config: Config, options: OfAccount & { readonly yes: boolean }): Promise<void> {
  if (!options.yes) throw new Refusal('This deletes the account with its keys and scans, for good: say --yes');
  const { user, erased } = await withStore(config, async (sql) => {
    const user = await userOf(sql, options.email);
    const isGone = await withNodes(config, (nodes) =>
      deleteAccount({ sql, nodes }, commandActor(), user.id).catch(explain),
    );
    if (!isGone) throw unknownUser(options.email);
    return { user, erased: await eraseScans(sql, new AbortController().signal) };
  });
  say(options, { email: user.email, id: user.id, scans: erased }, `is gone, and ${erased} scans with it`);
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

function say<View extends { readonly email: string }>({ json }: Output, view: View, sentence: string): void {
  print(json ? `${safeJson(view)}\n` : `${escapeText(view.email)} ${sentence}.\n`);
}

function warnUnlessTold(error: unknown): void {
  if (!(error instanceof Failure)) throw error;
  process.stderr.write(`${error.message}: servers follow by themselves, some seconds after it is back\n`);
}

function refuseUnlessTold(error: unknown): never {
  if (!(error instanceof Failure)) throw error;
  throw new Refusal(`${error.message}. Not every server refuses its keys yet: run the same command again`);
}

function explain(error: unknown): never {
  if (error instanceof Failure && error.code === 'conflict') throw new Refusal(error.message);
  return refuseUnlessTold(error);
}

interface AuditOptions extends Output {
  /** Only what was done to this account. */
  readonly email?: string;
  readonly rows: string;
}

const ROWS_MAX = 100_000;

/** `sluice audit`: who did what to which account, the newest first. */
export async function showAudit(config: Config, { json, email, rows: asked }: AuditOptions): Promise<void> {
  const rows = wholeNumber('--rows', asked, ROWS_MAX);
  const lines = await withStore(config, async (sql) => {
    const targetId = email === undefined ? null : (await userOf(sql, email)).id;
    return await listAudit(sql, { before: null, targetId, rows });
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
