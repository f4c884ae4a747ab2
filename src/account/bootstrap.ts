// The first account: made once on an empty store, from BOOTSTRAP_* or with random values.
import { randomBytes } from 'node:crypto';
import type { Bootstrap } from '../config/config.js';
import type { Queries, Sql } from '../store/postgres.js';
import { createKey } from './keys.js';
import { hashPassword } from './passwords.js';
import { createUser, hasUsers } from './users.js';

export interface BootstrapAccount {
  readonly email: string;
  /** Null when the operator set it and knows it. */
  readonly password: string | null;
  readonly apiKey: string;
  /** False when the operator set it: then it needn't be printed. */
  readonly apiKeyIsRandom: boolean;
  readonly plan: string;
}

/** A lock of its own: the one of the migrations is held while they run. */
const BOOTSTRAP_LOCK = 5_749_281_602;
const DEFAULT_EMAIL = 'admin@sluice.local';
/** 24 characters of base64url. */
const PASSWORD_BYTES = 18;

/**
 * Makes the first account and returns it, or null when there are accounts. On a real database (`isEmbedded` false) it
 * makes one only if BOOTSTRAP_EMAIL or BOOTSTRAP_API_KEY is set: credentials nobody asked for would be a way in.
 */
export async function bootstrap(
  sql: Sql,
  settings: Bootstrap,
  { isEmbedded }: { readonly isEmbedded: boolean },
): Promise<BootstrapAccount | null> {
  const wanted = isEmbedded || settings.email !== null || settings.apiKey !== null;
  if (!wanted || (await hasUsers(sql))) return null;
  const password = settings.password ?? randomBytes(PASSWORD_BYTES).toString('base64url');
  const passwordHash = await hashPassword(password);
  // Read committed whatever the database's default is: a snapshot from before the lock would not show the other's account.
  return await sql.transaction('readCommitted', async (tx) => {
    await tx`SELECT pg_advisory_xact_lock(${BOOTSTRAP_LOCK})`;
    // Asked again under the lock: another process may have been first.
    if (await hasUsers(tx)) return null;
    const { email, apiKey } = await createAccount(tx, settings, passwordHash);
    return {
      email,
      password: settings.password === null ? password : null,
      apiKey,
      apiKeyIsRandom: settings.apiKey === null,
      plan: settings.plan,
    };
  });
}

async function createAccount(
  sql: Queries,
  settings: Bootstrap,
  passwordHash: string,
): Promise<{ email: string; apiKey: string }> {
  const email = settings.email ?? DEFAULT_EMAIL;
  const user = await createUser(sql, {
    email,
    name: 'Administrator',
    passwordHash,
    plan: settings.plan,
    role: 'operator',
  });
  if (user.outcome !== 'created') throw new Error('The first account met another one');
  const given = settings.apiKey === null ? {} : { value: settings.apiKey };
  const key = await createKey(sql, { userId: user.userId, name: 'First key', ...given });
  return { email, apiKey: key.value };
}
