// The audit log: who did what to whom, when, and from which address. It is only added to, in the transaction of what was done.
import type { Queries } from '../store/postgres.js';

export interface Actor {
  /** Null: the command line. */
  readonly userId: string | null;
  readonly name: string;
  /** Null: the machine itself. */
  readonly address: string | null;
  /** It is about the account of the actor, who need not be an operator. */
  readonly isOwner?: true;
}

export const ACTIONS = [
  'account.plan',
  'account.limit',
  'account.role',
  'account.suspend',
  'account.restore',
  'account.delete',
  'account.password',
  'account.add',
  'account.reset',
  'account.two-factor',
  'key.create',
  'key.revoke',
  'sessions.end',
  'signatures.update',
  'content.allow',
] as const;
export type Action = (typeof ACTIONS)[number];

export interface Entry {
  readonly action: Action;
  /** Whom it was done to; null: nobody. */
  readonly target: { readonly id: string; readonly email: string } | null;
  readonly detail?: Readonly<Record<string, string | number | boolean | null>>;
}

export interface AuditRow {
  readonly id: string;
  readonly at: Date;
  readonly actor_id: string | null;
  readonly actor: string;
  readonly address: string | null;
  readonly action: Action;
  readonly target_id: string | null;
  readonly target: string | null;
  readonly detail: Readonly<Record<string, unknown>>;
}

export async function record(sql: Queries, actor: Actor, { action, target, detail = {} }: Entry): Promise<void> {
  await sql`
    INSERT INTO audit_log (actor_id, actor, address, action, target_id, target, detail)
    VALUES (${actor.userId}, ${actor.name}, ${actor.address}, ${action}, ${target?.id ?? null}, ${target?.email ?? null},
      ${JSON.stringify(detail)}::text::jsonb)`;
}

export interface AuditPlace {
  /** Rows older than this one; null: from the newest on. */
  readonly before: string | null;
  readonly targetId: string | null;
  readonly rows: number;
}

/** The newest first. */
export async function listAudit(sql: Queries, { before, targetId, rows }: AuditPlace): Promise<AuditRow[]> {
  return await sql<AuditRow[]>`
    SELECT id::text AS id, at, actor_id, actor, address, action, target_id, target, detail FROM audit_log
    WHERE (${before}::bigint IS NULL OR id < ${before}::bigint) AND (${targetId}::uuid IS NULL OR target_id = ${targetId}::uuid)
    ORDER BY audit_log.id DESC LIMIT ${rows}`;
}

/** Removes what is older than a year; the database allows no more. */
export async function sweepAudit(sql: Queries): Promise<void> {
  await sql`DELETE FROM audit_log WHERE at < now() - interval '1 year'`;
}
