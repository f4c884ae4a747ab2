// Passwords: Argon2id and nothing else.
import { hash } from '@node-rs/argon2';

/** `Algorithm.Argon2id` of the library, whose enum has no value at run time. */
const ARGON2ID = 2;
/** RFC 9106 section 4, second recommended option: 64 MiB, three passes. */
const OPTIONS = { algorithm: ARGON2ID, memoryCost: 64 * 1024, timeCost: 3, parallelism: 4 };

/** The PHC string to store. */
export function hashPassword(password: string): Promise<string> {
  return hash(password, OPTIONS);
}
