// A year of a small office, for pictures: keys, and what they have scanned, hour by hour.
import { createHash } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { z } from 'zod';
import { createRowStore } from '../../src/history/rows-to-database.js';
import type { ScanRow } from '../../src/history/scan-row.js';
import { openPostgres } from '../../src/store/postgres.js';
import { signIn as apiSignIn, bearer, post } from '../fixtures/sign-in.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DAYS = 365;
/** Of a thousand scans. */
const INFECTED = 40;
const INCOMPLETE = 25;
const REFUSED = 15;

const FILES: readonly (readonly [name: string, type: string])[] = [
  ['invoice-2214.pdf', 'CL_TYPE_PDF'],
  ['photo of the harbour.jpg', 'CL_TYPE_JPEG'],
  ['setup-4.2.1-x64.exe', 'CL_TYPE_MSEXE'],
  ['minutes of the board, 12 November.docx', 'CL_TYPE_OOXML_WORD'],
  ['backup-2026-11.tar.gz', 'CL_TYPE_GZ'],
  ['quarterly-report-final-with-comments.xlsx', 'CL_TYPE_OOXML_XL'],
  ['CV Lovelace.pdf', 'CL_TYPE_PDF'],
  ['logo.svg', 'CL_TYPE_HTML'],
];
const VIRUSES: readonly (readonly [file: string, virus: string])[] = [
  ['payment-details.zip', 'Win.Trojan.Agent-36149'],
  ['scan_0017.docm', 'Doc.Downloader.Emotet-10024588-0'],
  ['update.exe', 'Win.Malware.Zbot-9853173-0'],
];
const KEYS = ['Mail gateway', 'Customer uploads', 'Nightly backup'];
const LINK = 'https://downloads.example.com/releases/4.2.1/setup-4.2.1-x64.exe';

/** Fills the first account of a server that works on that database. */
export async function fillOffice(serverUrl: string, databaseUrl: string): Promise<void> {
  const { userId, accessToken } = await apiSignIn(serverUrl);
  const keys: string[] = [];
  for (const name of KEYS) {
    const { body } = await post(`${serverUrl}/web/keys`, { name }, bearer(accessToken));
    keys.push(z.object({ uuid: z.string() }).parse(body).uuid);
  }
  const { sql, close } = await openPostgres({ kind: 'url', url: databaseUrl });
  try {
    const rows = yearOf(userId, keys, Date.now());
    await createRowStore(sql)(rows);
    for (const [hour, used] of hoursOf(rows)) {
      await sql`INSERT INTO quota_hours (user_id, window_start, mirrored) VALUES (${userId}, ${hour}, ${used})
        ON CONFLICT (user_id, window_start) DO UPDATE SET mirrored = quota_hours.mirrored + excluded.mirrored`;
    }
  } finally {
    await close();
  }
}

/** The same whenever it is made, but for the times. */
function yearOf(userId: string, keys: readonly string[], nowMs: number): ScanRow[] {
  return Array.from({ length: DAYS }, (_, day) => day).flatMap((day) => {
    const isWeekend = new Date(nowMs - day * DAY_MS).getUTCDay() % 6 === 0;
    const scans = isWeekend ? 4 + (day % 3) : 22 + ((day * 7) % 19);
    const stepMs = (isWeekend ? 5 : 0.55) * HOUR_MS;
    return Array.from({ length: scans }, (_, scan) =>
      rowOf({ userId, keys, createdMs: nowMs - day * DAY_MS - scan * stepMs - 90_000, seed: day * 131 + scan * 977 }),
    );
  });
}

interface Made {
  readonly userId: string;
  readonly keys: readonly string[];
  readonly createdMs: number;
  readonly seed: number;
}

function rowOf({ userId, keys, createdMs, seed }: Made): ScanRow {
  const chance = (seed * 7_919) % 1_000;
  const [filename, detectedType] = FILES[seed % FILES.length] ?? ['', ''];
  const isInfected = chance < INFECTED;
  const virus = isInfected ? VIRUSES[seed % VIRUSES.length] : undefined;
  const isIncomplete = !isInfected && chance < INFECTED + INCOMPLETE;
  const isRefused = !isInfected && !isIncomplete && chance < INFECTED + INCOMPLETE + REFUSED;
  const isLink = seed % 17 === 0;
  const looked = !isIncomplete && !isRefused;
  return {
    id: uuidv7({ msecs: createdMs }),
    userId,
    keyId: seed % 5 === 0 ? null : (keys[seed % keys.length] ?? null),
    filename: virus?.[0] ?? (isIncomplete ? 'archive-of-archives.zip' : filename),
    durationMs: looked ? 1 + ((seed * 13) % 240) : 0,
    virusName: virus?.[1] ?? null,
    status: isIncomplete ? 422 : isRefused ? 400 : 200,
    error: isIncomplete ? 'Scan incomplete: nesting too deep' : isRefused ? 'File size exceeds limit: 10MB' : null,
    engine: looked ? 'clamav/1.4.6' : null,
    signatures: looked ? 'daily:27000' : null,
    sizeBytes: isRefused ? null : 48_213 + ((seed * 7_919) % 4_000_000),
    sha256: isRefused ? null : createHash('sha256').update(String(seed)).digest('hex'),
    detectedType: isRefused ? null : detectedType,
    notices: looked && seed % 29 === 0 ? ['encrypted'] : [],
    metadata: null,
    url: isLink ? LINK : null,
    protocol: seed % 5 === 0 && seed % 10 === 0 ? 'icap' : 'http',
    env: 'PRODUCTION',
    lastUpdateMs: createdMs + 5,
  };
}

/** Units of the hours of the last day. */
function hoursOf(rows: readonly ScanRow[]): Map<number, number> {
  const hours = new Map<number, number>();
  const newest = Math.max(...rows.map(({ lastUpdateMs }) => lastUpdateMs));
  for (const { lastUpdateMs } of rows) {
    if (lastUpdateMs < newest - DAY_MS) continue;
    const hour = Math.floor(lastUpdateMs / HOUR_MS) * 3_600;
    hours.set(hour, (hours.get(hour) ?? 0) + 1);
  }
  return hours;
}
