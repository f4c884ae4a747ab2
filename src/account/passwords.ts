// Passwords: Argon2id in the PHC string form, which carries its own salt and costs.
import { hash, verify } from '@node-rs/argon2';

/** OWASP's first choice of Argon2id costs: 19 MiB, two passes, one lane; 20 to 40 ms of one thread outside JavaScript. */
const COSTS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

export async function hashPassword(password: string): Promise<string> {
  return await hash(normalise(password), COSTS);
}

export async function verifyPassword(password: string, stored: string): Promise<boolean> {
  return await verify(stored, normalise(password));
}

/** NIST SP 800-63B: one password whatever way a keyboard composes its characters. */
function normalise(password: string): string {
  return password.normalize('NFKC');
}
