// The same inserts with the driver alone, in a process of its own: what it acknowledges is printed, line by line.
import postgres from 'postgres';
import { insertAmidQueries } from './amid-queries.js';

const [, , url = ''] = process.argv;
const sql = postgres(url, { max: 10 });
// A transaction that nobody ends would wait for ever.
setTimeout(() => process.exit(3), 60_000).unref();
await insertAmidQueries(
  (id) => sql.begin((tx) => tx`INSERT INTO things (id) VALUES (${id})`),
  () => sql`SELECT 1`,
  (id) => process.stdout.write(`${id}\n`),
);
await sql.end();
