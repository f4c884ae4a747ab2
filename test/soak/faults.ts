// What happens to a service while it is under load: reloads, upgrades, killed processes, stores that hang or crash, a disk that is full, a clock that is put right.
import { closeSync, fsyncSync, openSync, rmSync, statfsSync, writeFileSync, writeSync } from 'node:fs';
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
/** Seconds that the clock of the service is ahead of ours, one after the other: it is put forward, back behind the right time, and right. */
const STEPS = [900, -900, 0];
const STEP_MS = 2_000;

export interface Surroundings {
  /** Null: the service has its own. */
  readonly stores: Stores | null;
  /** What has a small disk of its own; null: nothing has. */
  readonly smallDisk: string | null;
  /** As fixtures/wrong-clock.c reads it. */
  readonly clockFile: string;
}

export function faultsOf(server: TestServer, { stores, smallDisk, clockFile }: Surroundings): Map<string, Fault> {
  const faults = new Map<string, Fault>([
    ['reload', seamless(() => void process.kill(server.pid, 'SIGHUP'))],
    ['upgrade', seamless(() => void process.kill(server.pid, 'SIGUSR2'))],
    ['clock steps', seamless(() => step(clockFile))],
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

function seamless(happen: () => void | Promise<void>): Fault {
  return { isSeamless: true, happen: async () => await happen() };
}

function costly(happen: () => void | Promise<void>): Fault {
  return { isSeamless: false, happen: async () => await happen() };
}

async function hang(begin: () => void, end: () => void): Promise<void> {
  begin();
  await delay(OUTAGE_MS);
  end();
}

async function step(clockFile: string): Promise<void> {
  for (const seconds of STEPS) {
    setClock(clockFile, seconds);
    await delay(STEP_MS);
  }
}

function setClock(clockFile: string, secondsAhead: number): void {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(secondsAhead));
  writeFileSync(clockFile, bytes, { flag: 'r+' });
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
