// What happens to a service while it is under load: reloads, upgrades, killed processes, stores that hang or crash, a disk that is full.
import { closeSync, fsyncSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { PostgresServer } from '../fixtures/postgres.js';
import { databaseOf } from '../fixtures/processes.js';
import type { RedisServer } from '../fixtures/redis.js';
import type { TestServer } from '../fixtures/server.js';

export interface Stores {
  readonly postgres: PostgresServer;
  readonly redis: RedisServer;
}

/** What it may cost: nothing at all, or answers of the process that ended. */
export interface Fault {
  readonly isSeamless: boolean;
  happen(): Promise<void>;
}

/** Short of what a scan may wait for a store. */
const OUTAGE_MS = 3_000;
const FULL_MS = 2_000;
const BLOCK = Buffer.alloc(1 << 20);

export function faultsOf(server: TestServer, stores: Stores | null, smallDisk: string | null): Map<string, Fault> {
  const faults = new Map<string, Fault>([
    ['reload', seamless(() => void process.kill(server.pid, 'SIGHUP'))],
    ['upgrade', seamless(() => void process.kill(server.pid, 'SIGUSR2'))],
    ['server killed', costly(() => void process.kill(server.serverPid(), 'SIGKILL'))],
  ]);
  if (stores === null)
    faults.set(
      'database killed',
      costly(() => void process.kill(databaseOf(server.pid), 'SIGKILL')),
    );
  else addStores(faults, stores);
  if (smallDisk !== null)
    faults.set(
      'full disk',
      costly(() => fill(smallDisk)),
    );
  return faults;
}

function addStores(faults: Map<string, Fault>, { postgres, redis }: Stores): void {
  faults.set(
    'Postgres hangs',
    costly(() => hang(postgres.pause, postgres.resume)),
  );
  faults.set(
    'Postgres crashes',
    costly(() => postgres.restart()),
  );
  faults.set(
    'Redis hangs',
    costly(() =>
      hang(
        () => redis.signal('SIGSTOP'),
        () => redis.signal('SIGCONT'),
      ),
    ),
  );
  faults.set(
    'Redis crashes',
    costly(async () => {
      await redis.kill();
      await redis.start();
    }),
  );
}

function seamless(happen: () => void): Fault {
  return { isSeamless: true, happen: async () => happen() };
}

function costly(happen: () => void | Promise<void>): Fault {
  return { isSeamless: false, happen: async () => await happen() };
}

async function hang(begin: () => void, end: () => void): Promise<void> {
  begin();
  await delay(OUTAGE_MS);
  end();
}

/** Takes all that is free in the folder's file system, for a while. */
async function fill(folder: string): Promise<void> {
  const path = join(folder, 'filler');
  const file = openSync(path, 'w');
  try {
    const { bavail, bsize } = statfsSync(folder);
    for (let left = bavail * bsize; left > 0; left -= BLOCK.length)
      writeSync(file, BLOCK, 0, Math.min(left, BLOCK.length));
    fsyncSync(file);
  } catch {
    // It is full.
  }
  closeSync(file);
  await delay(FULL_MS);
  rmSync(path);
}
