// Passwords: Argon2id in the PHC string form, which carries its own salt and costs; a bounded number of them at one time.
import { hash, verify } from '@node-rs/argon2';
import { Unavailable } from '../errors.js';
import { createLimiter } from '../waiting/limiter.js';

/** OWASP's first choice of Argon2id costs: 19 MiB, two passes, one lane; 20 to 40 ms of one thread outside JavaScript. */
const COSTS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };
/** Of the four threads that Node has for such work, and that names and files need as well. */
const CONCURRENT_MAX = 2;
/** Passwords that wait, a second's worth; the next one gets a 503. Of this process, for all requests together, as the threads are. */
const WAITING_MAX = 50;

const PASSWORD_MIN_CHARACTERS = 12;
const PASSWORD_MAX_CHARACTERS = 128;

const turns = createLimiter({ running: CONCURRENT_MAX, waiting: WAITING_MAX });

/** Throws Failure('unavailable') when too many wait. */
export async function hashPassword(password: string): Promise<string> {
  return await inTurn(() => hash(normalise(password), COSTS));
}

/** Throws Failure('unavailable') when too many wait. */
export async function verifyPassword(password: string, stored: string): Promise<boolean> {
  return await inTurn(() => verify(stored, normalise(password)));
}

/** What is wrong with a new password, or null. */
export function whyNotPassword(password: string): string | null {
  const characters = [...normalise(password)].length;
  return characters < PASSWORD_MIN_CHARACTERS || characters > PASSWORD_MAX_CHARACTERS
    ? `must have ${PASSWORD_MIN_CHARACTERS} to ${PASSWORD_MAX_CHARACTERS} characters`
    : null;
}

/** NIST SP 800-63B: one password whatever way a keyboard composes its characters. */
function normalise(password: string): string {
  return password.normalize('NFKC');
}

function inTurn<T>(work: () => Promise<T>): Promise<T> {
  return turns.run(work, () => new Unavailable('passwordsBusy'));
}
