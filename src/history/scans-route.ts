// GET /api/v1/scans and GET /api/v1/scans/{id}: the scans of a key's account, all keys' and the dashboard's, the newest first.
import { z } from 'zod';
import { Failure, Unavailable } from '../errors.js';
import { jsonReply, readQuery } from '../http/json.js';
import { type KeyRoute, keyCallerErrors } from '../http/key-caller.js';
import { jsonAnswer, pathParameter, queryParameters } from '../http/schema.js';
import { listQuery } from './query.js';
import { createScanFinder, type ScanFinderParts, ScanId } from './scan-finder.js';
import { ScanView, scanView } from './scan-view.js';
import { namesOfKeys, nextScans, type ScanDetail, TooSlow } from './stats.js';

const ScanPage = z.object({
  content: z.array(ScanView),
  next: z.string().nullable().describe('The `cursor` of the next page; null: there is none.'),
});

export function createScanRoutes(parts: ScanFinderParts): KeyRoute[] {
  const { sqlOf, onItsWay } = parts;
  const find = createScanFinder(parts);

  async function viewsOf(userId: string, scans: readonly ScanDetail[]): Promise<ScanView[]> {
    const keyIds = scans.flatMap(({ key_id }) => key_id ?? []);
    const names = await namesOfKeys(sqlOf(userId), userId, keyIds);
    return scans.map((scan) => scanView(scan, names));
  }

  return [
    {
      method: 'GET',
      path: '/api/v1/scans',
      operation: {
        summary: "The account's scans, the newest first",
        description: 'Those of all its keys and of the dashboard, failed ones too. Takes no unit.',
        tag: 'scans',
        who: 'key',
        parameters: queryParameters(listQuery),
        responses: { 200: jsonAnswer('A page of them.', ScanPage) },
        errors: keyCallerErrors,
      },
      async handle({ userId }, exchange) {
        const { from: fromMs, to: beforeMs, limit, cursor = null, ...filters } = readQuery(exchange, listQuery);
        await onItsWay.settled(userId);
        // One more says whether there is a next page.
        const request = { ...filters, fromMs, beforeMs, after: cursor, limit: limit + 1 };
        const found = await nextScans(sqlOf(userId), userId, request).catch(unavailableWhenSlow);
        const scans = found.slice(0, limit);
        const page: z.infer<typeof ScanPage> = {
          content: await viewsOf(userId, scans),
          next: found.length > limit ? (scans.at(-1)?.id ?? null) : null,
        };
        return jsonReply(200, page);
      },
    },
    {
      method: 'GET',
      path: '/api/v1/scans/{id}',
      operation: {
        summary: 'One scan of the account',
        description:
          'By its `X-Scan-Id`, from its answer on: also whether a scan is there whose answer never arrived. Takes no unit.',
        tag: 'scans',
        who: 'key',
        parameters: [pathParameter('id', ScanId)],
        responses: { 200: jsonAnswer('The scan.', ScanView) },
        errors: [...keyCallerErrors, 'notFound'],
      },
      async handle({ userId }, _exchange, { id }) {
        const scan = await find(userId, id);
        if (scan === null) throw new Failure('notFound', 'the scan');
        const [view] = await viewsOf(userId, [scan]);
        return jsonReply(200, view);
      },
    },
  ];
}

function unavailableWhenSlow(error: unknown): never {
  if (!(error instanceof TooSlow)) throw error;
  throw new Unavailable('pageSlow');
}
