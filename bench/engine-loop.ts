// Process entry: drives our scan pool directly, in the line protocol of raw-loop.c.
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { loadSignatures } from '../src/engine/signatures.js';
import { ScanPool, scanOnce } from '../src/engine/threads/pool.js';

/** A scan waits for each thread while it works, so that none stands idle. */
const SCANS_PER_THREAD = 2;
const SCAN_TIMEOUT_MS = 60_000;
const STAMP_BYTES = 8;

interface Entry {
  readonly bytes: Buffer;
  /** Copies that no scan holds. */
  readonly free: Uint8Array<SharedArrayBuffer>[];
}

const [database, threadsText, gatesDirectory = null] = process.argv.slice(2);
if (database === undefined || threadsText === undefined)
  throw new Error('usage: engine-loop DATABASE_DIR THREADS [GATES_DIR]');
const threads = Number(threadsText);
const signatures = loadSignatures({ directories: [database], scanTimeoutMs: SCAN_TIMEOUT_MS, gatesDirectory });
await signatures.ready();
const pool = new ScanPool({ threads, queueLimit: 1024, scanTimeoutMs: SCAN_TIMEOUT_MS });
let entries: Entry[] = [];
let unique = false;
let stamp = 0n;
say('loaded');

for await (const line of createInterface({ input: process.stdin })) {
  const [command, first, ...rest] = line.split(' ');
  if (command === 'files') {
    unique = first === 'unique';
    entries = await readEntries(rest.join(' '));
    say(`ready ${entries.length}`);
  } else if (command === 'run') {
    say(`done ${JSON.stringify(await run(Number(first)))}`);
  } else {
    throw new Error(`not understood: ${line}`);
  }
}
await pool.stop();
await signatures.stop();

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function readEntries(listPath: string): Promise<Entry[]> {
  const paths = (await readFile(listPath, 'utf8')).split('\n').filter((path) => path !== '');
  return Promise.all(paths.map(async (path) => ({ bytes: await readFile(path), free: [] })));
}

function take(entry: Entry): Uint8Array<SharedArrayBuffer> {
  let content = entry.free.pop();
  if (content === undefined) {
    // A byte of a neighbour's: memory that holds one content alone would be announced with each.
    content = new Uint8Array(new SharedArrayBuffer(entry.bytes.length + 1), 0, entry.bytes.length);
    content.set(entry.bytes);
  }
  stamp += 1n;
  if (unique) {
    const offset = Math.floor(entry.bytes.length / 2 / STAMP_BYTES) * STAMP_BYTES;
    new DataView(content.buffer).setBigUint64(offset, stamp, true);
  }
  return content;
}

async function run(seconds: number): Promise<object> {
  const lanes = threads * SCANS_PER_THREAD;
  // The copies a unique round needs are made before the clock starts.
  if (unique) for (const entry of entries) entry.free.push(...Array.from({ length: lanes }, () => take(entry)));
  const begin = performance.now();
  const deadline = begin + seconds * 1_000;
  const tally = { scans: 0, errors: 0, firstError: '' };
  let next = 0;
  let over = false;

  async function lane(): Promise<void> {
    while (true) {
      if (next % entries.length === 0 && performance.now() >= deadline) over = true;
      const entry = entries[next % entries.length];
      if (over || entry === undefined) return;
      next += 1;
      const content = take(entry);
      const { verdict, returned } = await scanOnce(pool, content, entry.bytes.length);
      tally.scans += 1;
      if (returned === null) entry.free.push(content);
      if (verdict.kind !== 'clean') {
        tally.errors += 1;
        tally.firstError ||= JSON.stringify(verdict);
      }
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane));
  return { ...tally, seconds: (performance.now() - begin) / 1_000 };
}
