// `npm run bench:pages`: what page loads of the dashboard cost the scan API; its p99 with 50 loads a second beside it and without, in turns.
import { startServer } from '../test/fixtures/server.js';
import { upload } from '../test/fixtures/upload.js';

const ROUNDS = 5;
const ROUND_MS = 8_000;
const LOADS_PER_SECOND = 50;
/** Scans that are under way at one time: each begins when the one before it has ended. */
const CONNECTIONS = 4;
const CONTENT_BYTES = 1_024;

const print = (text: string): void => void process.stdout.write(`${text}\n`);

function quantile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN;
}

/** Everything that a first visit of the page fetches, as a browser does. */
async function firstVisit(url: string): Promise<string[]> {
  const fetched = new Set<string>(['/']);
  for (const path of fetched) {
    const text = await (await fetch(url + path)).text();
    for (const [, name] of text.matchAll(/(?:from|import|src=|href=)\s*"(?:\.|\/assets)?\/([\w-]+\.(?:js|css))"/g)) {
      fetched.add(`/assets/${name}`);
    }
  }
  return [...fetched];
}

let scans = 0;

/** Milliseconds of each scan in the time. */
async function scanFor(url: string, ms: number): Promise<number[]> {
  const times: number[] = [];
  const endsAt = performance.now() + ms;
  async function connection(): Promise<void> {
    while (performance.now() < endsAt) {
      scans += 1;
      const startedAt = performance.now();
      const { status } = await upload(url, `${scans} `.padEnd(CONTENT_BYTES, 'x'));
      if (status !== 200) throw new Error(`A scan was answered with ${status}`);
      times.push(performance.now() - startedAt);
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, connection));
  return times;
}

/** Loads the pages evenly until it is ended; returns how many it was. */
function loadPages(url: string, paths: readonly string[]): () => Promise<number> {
  const loads: Promise<void>[] = [];
  const load = async (): Promise<void> => {
    for (const path of paths) {
      const answer = await fetch(url + path, { headers: { 'Accept-Encoding': 'br' } });
      await answer.arrayBuffer();
    }
  };
  const timer = setInterval(() => loads.push(load()), 1000 / LOADS_PER_SECOND);
  return async () => {
    clearInterval(timer);
    await Promise.all(loads);
    return loads.length;
  };
}

const server = await startServer({ env: { PLANS: 'LARGE:999999999', BOOTSTRAP_PLAN: 'LARGE' } });
try {
  const paths = await firstVisit(server.url);
  print(`${paths.length} files for each page load`);
  await scanFor(server.url, ROUND_MS / 4);
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const without = await scanFor(server.url, ROUND_MS);
    const end = loadPages(server.url, paths);
    const beside = await scanFor(server.url, ROUND_MS);
    const loads = await end();
    const [alone, together] = [quantile(without, 0.99), quantile(beside, 0.99)];
    ratios.push(together / alone);
    print(
      `round ${round + 1}: p99 ${alone.toFixed(2)} ms without, ${together.toFixed(2)} ms with ${loads} loads; ` +
        `medians ${quantile(without, 0.5).toFixed(2)} and ${quantile(beside, 0.5).toFixed(2)} ms`,
    );
  }
  print(`p99 with page loads / without: ${quantile(ratios, 0.5).toFixed(2)} (median of ${ROUNDS})`);
} finally {
  await server.stop();
}
