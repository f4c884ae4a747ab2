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
}

export type UserCreation =
  | { readonly outcome: 'created'; readonly userId: string }
  | { readonly outcome: 'emailTaken' };

const UNIQUE_VIOLATION = '23505';

export async function createUser(sql: Queries, user: NewUser): Promise<UserCreation> {
  const userId = uuidv7();
  try {
    await sql`
      INSERT INTO users (id, email, name, password_hash, plan)
      VALUES (${userId}, ${user.email}, ${user.name}, ${user.passwordHash}, ${user.plan})`;
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
