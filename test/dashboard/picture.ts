// Makes docs/images/dashboard.png, the picture of the README: `node dist/test/dashboard/picture.js`, after `node build.mjs --test`.
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { startPostgres } from '../fixtures/postgres.js';
import { startServer } from '../fixtures/server.js';
import { EMAIL } from '../fixtures/sign-in.js';
import { signIn, startBrowser } from './browser.js';
import { fillOffice } from './office.js';

const folder = fileURLToPath(new URL('../../../docs/images/', import.meta.url));
const postgres = await startPostgres();
const databaseUrl = await postgres.database();
const server = await startServer({ env: { DATABASE_URL: databaseUrl } });
const browser = await startBrowser();
try {
  await fillOffice(server.url, databaseUrl);
  const { page } = await browser.person();
  await page.setViewportSize({ width: 1200, height: 1115 });
  await page.goto(`${server.url}/sign-in`);
  await signIn(page, EMAIL);
  await page.getByRole('heading', { name: 'Latest scans' }).waitFor();
  for (const drawn of ['.donut svg', '.bars svg', '.latest']) await page.locator(drawn).first().waitFor();
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: `${folder}dashboard.png`, animations: 'disabled' });
} finally {
  await browser.close();
  await server.stop();
  await postgres.stop();
}
