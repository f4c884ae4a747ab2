// Accounts: one row per user, one account per e-mail address whatever its case.
import { v7 as uuidv7 } from 'uuid';
import type { Queries } from '../store/postgres.js';
import { codeOf } from '../store/store-error.js';

export interface NewUser {
  readonly email: string;
  readonly name: string;
  /** As hashPassword makes it; null: no sign-in with a password. */
  readonly passwordHash: string | null;
  readonly plan: string;
  /** False when the address is only what its owner typed; default true. */
  readonly emailVouched?: boolean;
}

export type UserCreation =
  | { readonly outcome: 'created'; readonly userId: string }
  | { readonly outcome: 'emailTaken' };

/** The columns of `users` that its owner sees. */
export interface UserRow {
  readonly id: string;
  readonly email: string;
  readonly name: string;
  readonly plan: string;
  readonly creation_date: Date;
}

/** A user as the dashboard API sends it. */
export interface UserView {
  readonly id: string;
  readonly email: string;
  readonly name: string;
  readonly plan: string;
  readonly hourlyLimit: number;
  readonly creationDate: string;
}

const UNIQUE_VIOLATION = '23505';

export async function createUser(sql: Queries, user: NewUser): Promise<UserCreation> {
  const userId = uuidv7();
  try {
    await sql`
      INSERT INTO users (id, email, name, password_hash, plan, email_vouched)
      VALUES (${userId}, ${user.email}, ${user.name}, ${user.passwordHash}, ${user.plan}, ${user.emailVouched ?? true})`;
  } catch (error) {
    if (codeOf(error) === UNIQUE_VIOLATION) return { outcome: 'emailTaken' };
    throw error;
  }
  return { outcome: 'created', userId };
}

export async function hasUsers(sql: Queries): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`SELECT EXISTS (SELECT FROM users) AS found`;
  return row?.found === true;
}

/** `plans` is plan name to scans per hour. */
export function userView(row: UserRow, plans: ReadonlyMap<string, number>): UserView {
  // A plan that the configuration no longer has counts as the smallest that it has.
  const hourlyLimit = plans.get(row.plan) ?? Math.min(...plans.values());
  const { id, email, name, plan } = row;
  return { id, email, name, plan, hourlyLimit, creationDate: wireTime(row.creation_date) };
}

/** One account per address: what is compared, and what is stored of a new one. */
export function normaliseEmail(email: string): string {
  return email.trim().toLowerCase();
}

/** What an account has that nobody chose a plan for: the smallest one that costs nothing, as for billing. */
export function defaultPlan(
  plans: ReadonlyMap<string, number>,
  sold: ReadonlyMap<string, unknown> = new Map(),
): string {
  const free = [...plans].filter(([name]) => !sold.has(name));
  const [first, ...others] = free;
  if (first === undefined) throw new Error('The configuration has no plan without a price');
  return others.reduce((one, other) => (other[1] < one[1] ? other : one), first)[0];
}

/** A time on the wire: UTC, whole seconds, no offset. */
export function wireTime(time: Date): string {
  return time.toISOString().slice(0, 19);
}
