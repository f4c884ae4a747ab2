// Why Redis is of no use now, in words for /readyz, which anybody may read, and for the log: no addresses and no secrets, and what can be done where Redis itself refuses.
import { codeOf, messageOfError } from '../../error-text.js';
import { NoAnswer } from '../../waiting/within.js';

/** Of its refusals those that last until somebody does something. */
const TO_DO: Readonly<Record<string, string>> = {
  MISCONF: 'it cannot save its data, and its own log says why',
  NOAUTH: 'REDIS_URL needs a password',
  NOPERM: 'its user may not do all that Sluice does: docs/operations.md has the rights',
  OOM: 'it is full: raise its maxmemory',
  READONLY: 'it is a replica: REDIS_URL has to name the master',
  WRONGPASS: 'the user or the password of REDIS_URL is wrong',
};

export function reasonOfRefusal(error: unknown): string {
  // Our own words, without an address.
  if (error instanceof NoAnswer) return error.message;
  const code = codeOf(error);
  if (code !== null) return code;
  const message = messageOfError(error);
  // The driver's words have the address in them, of the last one.
  if (message.startsWith('All sentinels')) return 'No Sentinel names a master';
  // Behind it come the arguments.
  const unknown = /^ERR unknown command [`']?(\w+)/.exec(message)?.[1];
  if (unknown !== undefined) return `it does not know the command ${unknown}, which Sluice needs`;
  // Redis 6 puts what went wrong in a script behind its own words.
  const word = /\b(READONLY|MISCONF|NOPERM)\b/.exec(message)?.[0] ?? /^[A-Z]+ /.exec(message)?.[0].trim();
  if (word === undefined) return message.replace(/\S*\d+\.\d+\.\d+\.\d+\S*/g, 'ADDRESS');
  const toDo = TO_DO[word];
  return toDo === undefined ? word : `${word}, ${toDo}`;
}
