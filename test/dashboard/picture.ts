// Makes docs/images/dashboard.png, the picture of the README: `node dist/test/dashboard/picture.js`, after `node build.mjs --test`.
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { v7 as uuidv7 } from 'uuid';
import { createRowStore } from '../../src/history/rows-to-database.js';
import type { ScanRow } from '../../src/history/scan-row.js';
import { openPostgres } from '../../src/store/postgres.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startServer } from '../fixtures/server.js';
import { signIn as apiSignIn, EMAIL } from '../fixtures/sign-in.js';
import { upload } from '../fixtures/upload.js';
import { signIn, startBrowser } from './browser.js';

const folder = fileURLToPath(new URL('../../../docs/images/', import.meta.url));
const DAY_MS = 86_400_000;
const NAMES = ['invoice-2214.pdf', 'photo.jpg', 'setup.exe', 'minutes.docx', 'backup.tar.gz', 'report.xlsx'];
/** Of a thousand. */
const INFECTED = 60;

/** A year of a small office. */
function yearOf(userId: string, nowMs: number): ScanRow[] {
  return Array.from({ length: 365 }, (_, day) => day).flatMap((day) =>
    Array.from({ length: 4 + ((day * 7) % 9) }, (_, scan): ScanRow => {
      const createdMs = nowMs - day * DAY_MS - scan * 3_000_000 - 60_000;
      const isInfected = (day * 131 + scan * 977) % 1_000 < INFECTED;
      return {
        id: uuidv7({ msecs: createdMs }),
        userId,
        keyId: null,
        filename: isInfected ? `payment-${day}.zip` : (NAMES[(day + scan) % NAMES.length] ?? ''),
        durationMs: 2 + (scan % 9),
        virusName: isInfected ? 'Win.Trojan.Agent-36149' : null,
        status: 200,
        error: null,
        engine: 'clamav/1.4.6',
        signatures: 'daily:27000',
        sizeBytes: 48_213 + day * scan,
        sha256: 'ab'.repeat(32),
        detectedType: null,
        notices: [],
        metadata: null,
        url: null,
        protocol: 'http',
        env: 'PRODUCTION',
        lastUpdateMs: createdMs + 5,
      };
    }),
  );
}

const postgres = await startPostgres();
const databaseUrl = await postgres.database();
const server = await startServer({ env: { DATABASE_URL: databaseUrl } });
const browser = await startBrowser();
try {
  const { userId } = await apiSignIn(server.url);
  const { sql, close } = await openPostgres({ kind: 'url', url: databaseUrl });
  await createRowStore(sql)(yearOf(userId, Date.now()));
  await close();
  await upload(server.url, 'one of today');
  const { page } = await browser.person();
  await page.setViewportSize({ width: 1200, height: 1130 });
  await page.goto(`${server.url}/sign-in`);
  await signIn(page, EMAIL);
  await page.getByRole('heading', { name: 'Latest scans' }).waitFor();
  for (const drawn of ['.donut svg', '.recharts-bar-rectangle', '.latest']) await page.locator(drawn).first().waitFor();
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: `${folder}dashboard.png`, animations: 'disabled' });
} finally {
  await browser.close();
  await server.stop();
  await postgres.stop();
}
