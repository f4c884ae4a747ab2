// The first account: made at the first start on an empty store, so that a new user can scan at once.
import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { Bootstrap } from '../config.js';
import type { Queries, Sql } from '../store/postgres.js';
import { insertKey, randomKey } from './keys.js';
import { hashPassword } from './passwords.js';

/** What was made. Shown once, never logged: nobody can read it back. */
export interface Credentials {
  readonly email: string;
  /** Null: it was given, so whoever gave it knows it. */
  readonly password: string | null;
  readonly apiKey: string;
  readonly apiKeyGiven: boolean;
  readonly plan: string;
}

/**
 * Makes the account if there is none at all, and returns null otherwise. What the configuration doesn't give is random, but
 * on a database that others may share (`fill` false) nothing is made unless an e-mail address is given.
 */
export async function bootstrap(sql: Sql, settings: Bootstrap, { fill }: { fill: boolean }): Promise<Credentials | null> {
  if (!fill && settings.email === null) return null;
  const email = settings.email ?? 'admin@localhost';
  const password = settings.password ?? randomBytes(18).toString('base64url');
  const apiKey = settings.apiKey ?? randomKey();
  if (await hasUsers(sql)) return null;
  const passwordHash = await hashPassword(password);
  const made = await sql.begin(async (tx) => {
    // Two processes may start at once on one database: the second one waits here and then sees the first one's account.
    await tx`LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`;
    if (await hasUsers(tx)) return false;
    const userId = uuidv7();
    await tx`
      INSERT INTO users (id, email, name, password_hash, plan)
      VALUES (${userId}, ${email}, 'Administrator', ${passwordHash}, ${settings.plan})`;
    await insertKey(tx, { userId, name: 'First key', value: apiKey });
    return true;
  });
  if (!made) return null;
  return {
    email,
    password: settings.password === null ? password : null,
    apiKey,
    apiKeyGiven: settings.apiKey !== null,
    plan: settings.plan,
  };
}

async function hasUsers(sql: Queries): Promise<boolean> {
  return (await sql`SELECT 1 FROM users LIMIT 1`).length > 0;
}
