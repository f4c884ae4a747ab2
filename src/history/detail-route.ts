// GET /web/scans/{id}: all that is known of one scan of the signed-in user's.
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { Failure } from '../errors.js';
import type { CallerRoute } from '../http/caller.js';
import { jsonReply } from '../http/json.js';
import type { Operation } from '../http/openapi.js';
import { jsonAnswer, pathParameter } from '../http/schema.js';
import type { SqlOf } from '../store/postgres.js';
import type { History } from './history.js';
import { timeOfId } from './scan-row.js';
import { findScan, type ScanDetail } from './stats.js';
import { Detail, detailOf, wireDetail } from './wire-row.js';

const Id = z.uuid({ version: 'v7' });

/** A scan that was admitted so long ago, or by a clock that is ahead by so much, may have been answered just now by another node. */
const YOUNG_MS = 15 * 60_000;
/** It is in the database within two tenths of a second: after these pauses it is looked for again. */
const PAUSES_MS = [50, 100, 150, 300, 400];
/** Of one account at a time; those beyond get at once what the database has. */
const WAITS_PER_USER = 8;

export interface DetailRouteParts {
  readonly sqlOf: SqlOf;
  readonly now: () => number;
  readonly onItsWay: OnItsWay;
}

/** What this process knows of scans that the database doesn't have yet. */
export type OnItsWay = Pick<History, 'find' | 'settled'>;

export function createDetailRoute({ sqlOf, now, onItsWay }: DetailRouteParts): CallerRoute {
  const waiting = new Map<string, number>();

  /** Another process or node may have answered this very moment: its row is waited for, within bounds. */
  async function findSoon(userId: string, id: string): Promise<ScanDetail | null> {
    const waits = waiting.get(userId) ?? 0;
    const isYoung = Math.abs(now() - timeOfId(id)) < YOUNG_MS;
    const pauses = isYoung && waits < WAITS_PER_USER ? PAUSES_MS : [];
    waiting.set(userId, waits + 1);
    try {
      let scan = await findScan(sqlOf(userId), userId, id);
      for (const pauseMs of pauses) {
        if (scan !== null) break;
        await delay(pauseMs);
        scan = await findScan(sqlOf(userId), userId, id);
      }
      return scan;
    } finally {
      const left = (waiting.get(userId) ?? 1) - 1;
      if (left === 0) waiting.delete(userId);
      else waiting.set(userId, left);
    }
  }

  return {
    method: 'GET',
    path: '/web/scans/{id}',
    operation: detailOperation,
    async handle({ userId }, _exchange, { id }) {
      const known = Id.safeParse(id);
      if (!known.success) throw new Failure('notFound', 'the scan');
      const scanId = known.data.toLowerCase();
      const row = onItsWay.find(userId, scanId);
      const scan = row === null ? await findSoon(userId, scanId) : detailOf(row);
      if (scan === null) throw new Failure('notFound', 'the scan');
      return jsonReply(200, wireDetail(scan));
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
  parameters: [pathParameter('id', Id)],
  responses: { 200: jsonAnswer('The scan.', Detail) },
  errors: ['tokenMissing', 'tokenInvalid', 'tokenExpired', 'notFound', 'internal', 'unavailable'],
};
