// `sluice audit`: who did what to which account, the newest first.
import type { Config } from '../config/config.js';
import { listAudit } from '../operator/audit.js';
import { wireTime } from '../wire-text.js';
import { Refusal, safeJson, table } from './output.js';
import { withStore } from './store.js';
import { type Output, print, userOf } from './users.js';

export interface AuditOptions extends Output {
  /** Only what was done to this account. */
  readonly email?: string;
  readonly rows: string;
}

const ROWS_MAX = 100_000;

export async function showAudit(config: Config, { json, email, rows: asked }: AuditOptions): Promise<void> {
  const rows = Number(asked);
  if (!/^\d+$/.test(asked) || rows < 1 || rows > ROWS_MAX) {
    throw new Refusal(`--rows must be a whole number from 1 to ${ROWS_MAX}`);
  }
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
