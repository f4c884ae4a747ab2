// One scan of an account by its id, from its answer on, whichever process or node has answered it.
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { SqlOf } from '../store/postgres.js';
import type { History } from './history.js';
import type { PendingScans } from './pending-scans.js';
import { timeOfId } from './scan-row.js';
import { pendingDetail, type ShownScan } from './scan-view.js';
import { findScan } from './stats.js';
import { detailOf } from './wire-row.js';

export const ScanId = z.uuid({ version: 'v7' }).describe('Of the scan: its `X-Scan-Id`.');

/** A scan that was admitted so long ago, or by a clock that is ahead by so much, may have been answered just now by another node. */
const YOUNG_MS = 15 * 60_000;
/** It is in the database within two tenths of a second: after these pauses it is looked for again. */
const PAUSES_MS = [50, 100, 150, 300, 400];
/** Of one account at a time; those beyond get at once what the database has. */
const WAITS_PER_USER = 8;

export interface ScanFinderParts {
  readonly sqlOf: SqlOf;
  readonly now: () => number;
  readonly onItsWay: OnItsWay;
  readonly pending: Pick<PendingScans, 'find'>;
}

/** What this process knows of scans that the database doesn't have yet. */
export type OnItsWay = Pick<History, 'find' | 'settled'>;

/** Null: the user has no scan of that id, which may be any text. Throws Failure('unavailable'). */
export type FindScan = (userId: string, id: string | undefined) => Promise<ShownScan | null>;

export function createScanFinder({ sqlOf, now, onItsWay, pending }: ScanFinderParts): FindScan {
  const waiting = new Map<string, number>();

  /** What has ended in between the two questions is found by the next look. */
  async function look(userId: string, id: string): Promise<ShownScan | null> {
    const ended = await findScan(sqlOf(userId), userId, id);
    if (ended !== null) return ended;
    const accepted = await pending.find(userId, id);
    return accepted === null ? null : pendingDetail(accepted);
  }

  /** Another process or node may have answered this very moment: its row is waited for, within bounds. */
  async function findSoon(userId: string, id: string): Promise<ShownScan | null> {
    const waits = waiting.get(userId) ?? 0;
    const isYoung = Math.abs(now() - timeOfId(id)) < YOUNG_MS;
    const pauses = isYoung && waits < WAITS_PER_USER ? PAUSES_MS : [];
    waiting.set(userId, waits + 1);
    try {
      let scan = await look(userId, id);
      for (const pauseMs of pauses) {
        if (scan !== null) break;
        await delay(pauseMs);
        scan = await look(userId, id);
      }
      return scan;
    } finally {
      const left = (waiting.get(userId) ?? 1) - 1;
      if (left === 0) waiting.delete(userId);
      else waiting.set(userId, left);
    }
  }

  return async (userId, id) => {
    const known = ScanId.safeParse(id);
    if (!known.success) return null;
    const scanId = known.data.toLowerCase();
    const row = onItsWay.find(userId, scanId);
    return row === null ? await findSoon(userId, scanId) : detailOf(row);
  };
}
