// GET /web/quota and /web/quota/hours: what is left of the signed-in user's hour, and what came of the hours before, without taking a unit.
import { z } from 'zod';
import { limitOf, type Plans } from '../config/plans.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply } from '../http/json.js';
import { jsonAnswer, type Operation } from '../http/openapi.js';
import { guarded } from '../store/store-error.js';
import { WireTime, wireTime } from '../wire-text.js';
import type { AdmissionStore } from './admission.js';

export interface QuotaRouteParts {
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

const hoursOperation: Operation = {
  summary: 'Units and refusals of the last 24 hours',
  description:
    'By UTC hour, the oldest first, this one last. Units that came back are not in it. Other nodes are a few seconds behind.',
  tag: 'scans',
  who: 'user',
  responses: { 200: jsonAnswer('The hours.', Hours) },
  errors: ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'internal', 'unavailable'],
};

const quotaOperation: Operation = {
  summary: 'What is left of your hourly quota',
  description: 'Asking takes no unit. The answer of every scan says the same in its `X-RateLimit` headers.',
  tag: 'scans',
  who: 'user',
  responses: { 200: jsonAnswer('The hour as it is now.', Hour) },
  errors: ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'internal', 'unavailable'],
};
