// GET /web/scans/{id}: all that is known of one scan of the signed-in user's.
import { Failure } from '../errors.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { jsonAnswer, pathParameter } from '../http/schema.js';
import type { SqlOf } from '../store/postgres.js';
import { type FindScan, ScanId } from './scan-finder.js';
import { namesOfKeys } from './stats.js';
import { Detail, wireDetail } from './wire-row.js';

export function createDetailRoute(find: FindScan, sqlOf: SqlOf): CallerRoute {
  return {
    method: 'GET',
    path: '/web/scans/{id}',
    operation: detailOperation,
    async handle({ userId }, _exchange, { id }) {
      const scan = await find(userId, id);
      if (scan === null) throw new Failure('notFound', 'the scan');
      return jsonReply(200, wireDetail(scan, await namesOfKeys(sqlOf(userId), userId, [scan])));
    },
  };
}

const detailOperation: Operation = {
  summary: 'One of your scans',
  description:
    "By its `X-Scan-Id`, from its answer on. Another process or node than the one that answered waits up to a second for a scan that it doesn't know yet. " +
    "Another account's scans are a 404.",
  tag: 'history',
  who: 'user',
  parameters: [pathParameter('id', ScanId)],
  responses: { 200: jsonAnswer('The scan.', Detail) },
  errors: ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'notFound', 'internal', 'unavailable'],
};
