// GET /web/scans/{id}: all that is known of one scan of the signed-in user's.
import { z } from 'zod';
import { Failure } from '../errors.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { jsonAnswer, pathParameter } from '../http/schema.js';
import type { Sql } from '../store/postgres.js';
import { findScan } from './stats.js';
import { Detail, wireDetail } from './wire-row.js';

const Id = z.uuid({ version: 'v7' });

export function createDetailRoute(sql: Sql): CallerRoute {
  return {
    method: 'GET',
    path: '/web/scans/{id}',
    operation: detailOperation,
    async handle({ userId }, _exchange, { id }) {
      const known = Id.safeParse(id);
      const scan = known.success ? await findScan(sql, userId, known.data) : null;
      if (scan === null) throw new Failure('notFound', 'the scan');
      return jsonReply(200, wireDetail(scan));
    },
  };
}

const detailOperation: Operation = {
  summary: 'One of your scans',
  description:
    "By its `X-Scan-Id`. A scan is there within about a tenth of a second of its answer. Another account's scans are a 404.",
  tag: 'history',
  who: 'user',
  parameters: [pathParameter('id', Id)],
  responses: { 200: jsonAnswer('The scan.', Detail) },
  errors: ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'notFound', 'internal', 'unavailable'],
};
