// GET /api/v1/account, /web/quota and /web/quota/hours: what an account has left of its hour, what came of the hours before, and what is known of the
// key that was sent, without taking a unit.
import { z } from 'zod';
import { KEY_SCOPES } from '../config/key-rules.js';
import { limitOf, type Plans } from '../config/plans.js';
import { Failure } from '../errors.js';
import type { CallerRoute, GuardedOperation, KeyRoute } from '../http/caller.js';
import { jsonReply } from '../http/json.js';
import { jsonAnswer } from '../http/openapi.js';
import type { SqlOf } from '../store/postgres.js';
import { guarded } from '../store/store-error.js';
import { WireTime, wireTime } from '../wire-text.js';
import type { AdmissionStore } from './admission.js';

interface AccountRouteParts {
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
      responses: { 200: jsonAnswer('As it is now.', Account) },
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

interface QuotaRouteParts {
  readonly admission: Pick<AdmissionStore, 'quotaOf' | 'lastDay'>;
  readonly plans: Plans;
}

const Hour = z
  .object({
    limit: z.int().min(1).describe('Scans per hour.'),
    remaining: z.int().min(0).describe('Scans left in this hour.'),
    resetTime: z.int().describe('End of the hour, in epoch seconds.'),
  })
  .meta({ id: 'QuotaHour' });

const Hours = z
  .array(
    z.object({
      hour: WireTime.describe('Its beginning, in UTC.'),
      used: z.int().min(0).describe('Units.'),
      refused: z.int().min(0).describe('Scans that were refused since all units were used.'),
    }),
  )
  .length(24)
  .meta({ id: 'QuotaHours' });

export function createQuotaRoutes({ admission, plans }: QuotaRouteParts): CallerRoute[] {
  const now: CallerRoute = {
    method: 'GET',
    path: '/web/quota',
    operation: quotaOperation,
    async handle({ userId, plan, ownLimit }) {
      const quota = await admission.quotaOf({
        userId,
        hourlyLimit: limitOf(plans, { plan, ownLimit, isSuspended: false }),
      });
      const { limit, remaining, resetEpochSeconds: resetTime } = quota;
      const hour: z.infer<typeof Hour> = { limit, remaining, resetTime };
      return jsonReply(200, hour);
    },
  };
  const hours: CallerRoute = {
    method: 'GET',
    path: '/web/quota/hours',
    operation: hoursOperation,
    async handle({ userId }) {
      const day = await guarded(admission.lastDay(userId));
      const view: z.infer<typeof Hours> = day.map(({ windowStartSeconds, ...counts }) => ({
        hour: wireTime(new Date(windowStartSeconds * 1000)),
        ...counts,
      }));
      return jsonReply(200, view);
    },
  };
  return [now, hours];
}

const hoursOperation: GuardedOperation = {
  summary: 'Units and refusals of the last 24 hours',
  description:
    'By UTC hour, the oldest first, this one last. Units that came back are not in it. Other nodes are a few seconds behind.',
  tag: 'scans',
  responses: { 200: jsonAnswer('The hours.', Hours) },
};

const quotaOperation: GuardedOperation = {
  summary: 'What is left of your hourly quota',
  description: 'Asking takes no unit. The answer of every scan says the same in its `X-RateLimit` headers.',
  tag: 'scans',
  responses: { 200: jsonAnswer('The hour as it is now.', Hour) },
};
