// GET /api/v1/account: what the account of a key may do, and what is known of the key, without taking a unit.
import { z } from 'zod';
import { KEY_SCOPES } from '../config/key-rules.js';
import { Failure } from '../errors.js';
import { type KeyRoute, keyCallerErrors } from '../http/caller.js';
import { jsonReply } from '../http/json.js';
import { jsonAnswer } from '../http/openapi.js';
import type { SqlOf } from '../store/postgres.js';
import { guarded } from '../store/store-error.js';
import { WireTime, wireTime } from '../wire-text.js';
import type { AdmissionStore } from './admission.js';

export interface AccountRouteParts {
  readonly admission: Pick<AdmissionStore, 'quotaOf'>;
  readonly sqlOf: SqlOf;
}

const Account = z
  .object({
    plan: z.string(),
    hourlyLimit: z.int().min(1).describe('Scans per hour.'),
    remaining: z
      .int()
      .min(0)
      .describe('Scans that the account has left in this hour; a key with a limit of its own may have fewer.'),
    resetTime: z.int().describe('End of the hour, in epoch seconds.'),
    key: z
      .object({
        uuid: z.guid(),
        name: z.string(),
        expires: WireTime.nullable().describe('From then on it is refused; null: never.'),
        hourlyLimit: z.int().nullable().describe('Scans per hour of this key alone; null: as many as the account has.'),
        scopes: z.array(z.enum(KEY_SCOPES)),
      })
      .describe('The key that was sent.'),
  })
  .meta({ id: 'Account' });

export function createAccountRoute({ admission, sqlOf }: AccountRouteParts): KeyRoute {
  return {
    method: 'GET',
    path: '/api/v1/account',
    operation: {
      id: 'getAccount',
      summary: 'The account of the key, and what is left of its hour',
      description: 'Takes no unit, so it is also the way to find out whether a key is good.',
      tag: 'account',
      who: 'key',
      responses: { 200: jsonAnswer('As it is now.', Account) },
      errors: keyCallerErrors,
    },
    async handle({ userId, keyId, hourlyLimit, rules }) {
      const sql = sqlOf(userId);
      const [quota, [row]] = await Promise.all([
        admission.quotaOf({ userId, hourlyLimit }),
        guarded(
          sql<{ plan: string; name: string }[]>`
            SELECT u.plan, k.name FROM users u JOIN api_keys k ON k.user_id = u.id WHERE k.id = ${keyId}`,
        ),
      ]);
      // The account has ended at this moment.
      if (row === undefined) throw new Failure('keyInvalid');
      const expiresAt = rules?.expiresAtSeconds ?? null;
      const { limit, remaining, resetEpochSeconds } = quota;
      const account: z.infer<typeof Account> = {
        plan: row.plan,
        hourlyLimit: limit,
        remaining,
        resetTime: resetEpochSeconds,
        key: {
          uuid: keyId,
          name: row.name,
          expires: expiresAt === null ? null : wireTime(new Date(expiresAt * 1000)),
          hourlyLimit: rules?.hourlyLimit ?? null,
          scopes: [...(rules?.scopes ?? KEY_SCOPES)],
        },
      };
      return jsonReply(200, account);
    },
  };
}
