// GET /web/keys/{uuid}/usage: what came of the scans of one key of the signed-in user's, by day.
import { z } from 'zod';
import { Failure } from '../errors.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply, readQuery } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { jsonAnswer, pathParameter, queryParameters } from '../http/schema.js';
import type { Queries } from '../store/postgres.js';
import { guarded } from '../store/store-error.js';
import { WireTime, wireTime } from '../wire-time.js';
import { keyUsageQuery } from './query.js';
import type { ScanFinderParts } from './scan-finder.js';

const count = z.int().min(0);
const KeyUsage = z
  .object({
    lastUse: WireTime.nullable().describe('UTC, of the last scan that succeeded; null: none yet'),
    days: z
      .array(
        z.object({
          day: z.string().describe('UTC'),
          clean: count,
          infected: count,
          failed: count.describe('Without a verdict.'),
        }),
      )
      .describe('The oldest first, each day of the span once.'),
  })
  .meta({ id: 'KeyUsage' });
type KeyUsage = z.infer<typeof KeyUsage>;

export function createKeyUsageRoute({ sqlOf, onItsWay }: Pick<ScanFinderParts, 'sqlOf' | 'onItsWay'>): CallerRoute {
  return {
    method: 'GET',
    path: '/web/keys/{uuid}/usage',
    operation: usageOperation,
    async handle({ userId }, exchange, { uuid }) {
      const { days } = readQuery(exchange, keyUsageQuery);
      const keyId = z.guid().safeParse(uuid);
      if (!keyId.success) throw new Failure('notFound', 'the key');
      await onItsWay.settled(userId);
      const usage = await guarded(usageOf(sqlOf(userId), { userId, keyId: keyId.data, days }));
      if (usage === null) throw new Failure('notFound', 'the key');
      return jsonReply(200, usage);
    },
  };
}

interface Asked {
  readonly userId: string;
  readonly keyId: string;
  readonly days: number;
}

/** Null: the user has no such key, nor had one. */
async function usageOf(sql: Queries, { userId, keyId, days }: Asked): Promise<KeyUsage | null> {
  const [[key], counts] = await Promise.all([
    sql<{ last_use: Date | null }[]>`SELECT last_use FROM api_keys WHERE id = ${keyId} AND user_id = ${userId}`,
    sql<KeyUsage['days']>`
      SELECT to_char(d, 'YYYY-MM-DD') AS day, COALESCE(clean, 0) AS clean, COALESCE(infected, 0) AS infected,
        COALESCE(failed, 0) AS failed
      FROM generate_series((now() AT TIME ZONE 'UTC')::date - ${days - 1}::int, (now() AT TIME ZONE 'UTC')::date,
        interval '1 day') AS d
      LEFT JOIN key_days k ON k.day = d::date AND k.user_id = ${userId} AND k.key_id = ${keyId}
      ORDER BY d`,
  ]);
  if (key === undefined) return null;
  return { lastUse: key.last_use === null ? null : wireTime(key.last_use), days: [...counts] };
}

const usageOperation: Operation = {
  summary: 'The scans of one of your API keys, by day',
  description: 'Also of a key that has ended. Scans of before keys were counted by day are not in it.',
  tag: 'keys',
  who: 'user',
  parameters: [pathParameter('uuid', z.string().describe("The key's `uuid`.")), ...queryParameters(keyUsageQuery)],
  responses: { 200: jsonAnswer('The days, with today as the last one.', KeyUsage) },
  errors: ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'badRequest', 'notFound', 'internal', 'unavailable'],
};
