// How many sign-ins and registrations there may be: by address, by account, and by both. What is refused doesn't count.
import { Failure } from '../errors.js';
import type { Queries, Sql } from '../store/postgres.js';
import {
  giveAttemptBack,
  type Rule,
  registrationsOfAccount,
  registrationsOfAddress,
  signInsOfAccount,
  signInsOfAddress,
  signInsOfPair,
  takeAttempt,
} from './attempts.js';
import { throttledAs } from './client-address.js';

/** Both throw Failure `tooManyAttempts`. An address is as throttledAs has it. */
export interface SignInThrottle {
  /** Counts a sign-in, whether or not there is such an account; returns what gives the attempts back. */
  signIn(email: string, address: string): Promise<() => Promise<void>>;
  /** Before anything is hashed, and whether or not the account is there. */
  registration(email: string, address: string): Promise<void>;
}

export function createSignInThrottle(sql: Sql, now: () => number): SignInThrottle {
  async function take(rule: Rule, subject: readonly string[]): Promise<void> {
    const waitSeconds = await takeAttempt(sql, rule, subject, now());
    if (waitSeconds !== null) throw new Failure('tooManyAttempts', '', waitSeconds);
  }

  async function takeSignIn(email: string, address: string): Promise<() => Promise<void>> {
    const counted: [Rule, readonly string[]][] = [];
    const giveBack = async (): Promise<void> => {
      for (const [rule, subject] of counted) await giveAttemptBack(sql, rule, subject);
    };
    try {
      for (const [rule, subject] of [
        [signInsOfAddress, [address]],
        [signInsOfPair, [email, address]],
      ] as const) {
        await take(rule, subject);
        counted.push([rule, subject]);
      }
      const waitSeconds = await takeAttempt(sql, signInsOfAccount, [email], now());
      if (waitSeconds === null) counted.push([signInsOfAccount, [email]]);
      // A stranger who fails on purpose doesn't lock the owner out of where the owner is signed in.
      else if (!(await isSignedInFrom(sql, email, address, now())))
        throw new Failure('tooManyAttempts', '', waitSeconds);
    } catch (error) {
      // What is refused doesn't count, by any rule.
      if (error instanceof Failure) await giveBack();
      throw error;
    }
    return giveBack;
  }

  async function takeRegistration(email: string, address: string): Promise<void> {
    await take(registrationsOfAddress, [address]);
    try {
      await take(registrationsOfAccount, [email]);
    } catch (error) {
      // What is refused doesn't count, by any rule.
      if (error instanceof Failure) await giveAttemptBack(sql, registrationsOfAddress, [address]);
      throw error;
    }
  }

  return { signIn: takeSignIn, registration: takeRegistration };
}

async function isSignedInFrom(sql: Queries, email: string, address: string, nowMs: number): Promise<boolean> {
  const rows = await sql<{ ip_address: string }[]>`
    SELECT DISTINCT s.ip_address FROM sessions s JOIN users u ON u.id = s.user_id
    WHERE lower(u.email) = ${email} AND s.expires_at > ${new Date(nowMs)}`;
  return rows.some((row) => throttledAs(row.ip_address) === address);
}
