// Throttling of the current password, which a signed-in user types before changing what it protects: counted by session.
import { Failure } from '../errors.js';
import type { Caller } from '../http/caller.js';
import type { Sql } from '../store/postgres.js';
import { giveAttemptBack, passwordsOfSession, takeAttempt } from './attempts.js';

/** Counts a guess, or throws Failure('tooManyAttempts'); what it returns takes one back that was right. */
export function createPasswordGuesses(sql: Sql, now: () => number): (caller: Caller) => Promise<() => Promise<void>> {
  return async ({ userId, sessionId }) => {
    const subject = [userId, sessionId ?? ''];
    const waitSeconds = await takeAttempt(sql, passwordsOfSession, subject, now());
    if (waitSeconds !== null) throw new Failure('tooManyAttempts', '', waitSeconds);
    return () => giveAttemptBack(sql, passwordsOfSession, subject);
  };
}
