// A journal in a folder of its own, what it reported, and what a killed process leaves in such a folder.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { type Journal, openJournal } from '../../src/history/journal.js';
import type { ScanRow } from '../../src/history/scan-row.js';
import type { Damage, TransientFailure } from '../../src/history/segments.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { rowAt } from '../fixtures/history.js';
import type { Tap } from '../fixtures/stores.js';

export const MIB = 1024 * 1024;
export const NOW = Date.parse('2026-11-21T12:00:00Z');

export interface Opened {
  readonly journal: Journal;
  readonly damage: Damage[];
  readonly transientFailures: TransientFailure[];
  /** Why scans are recorded nowhere. */
  readonly unwritten: unknown[];
}

export async function open(t: Tap, directory: string, limitBytes = 64 * MIB): Promise<Opened> {
  return await opening(t, openTelling(directory, limitBytes));
}

/** Without rows in memory: what comes out was read from the disk. */
export async function openForgetful(t: Tap, directory: string): Promise<Opened> {
  return await opening(t, openTelling(directory, 64 * MIB, 0));
}

async function opening(t: Tap, coming: Promise<Opened>): Promise<Opened> {
  const opened = await coming;
  t.teardown(() => opened.journal.close());
  return opened;
}

export async function openTelling(directory: string, limitBytes = 64 * MIB, recentRows?: number): Promise<Opened> {
  const damage: Damage[] = [];
  const transientFailures: TransientFailure[] = [];
  const unwritten: unknown[] = [];
  const journal = await openJournal({
    directory,
    limitBytes,
    ...(recentRows === undefined ? {} : { recentRows }),
    onDamage: (one) => damage.push(one),
    onTransientFailure: (one) => transientFailures.push(one),
    onUnwritten: (error) => unwritten.push(error),
  });
  return { journal, damage, transientFailures, unwritten };
}

/** That has nothing to complain about. */
export function openSound(t: Test, directory = temporaryFolder(t)): Promise<Journal> {
  const fail = (problem: unknown) => void t.fail(String(problem), { problem });
  return openJournal({ directory, limitBytes: 1e9, onDamage: fail, onTransientFailure: fail, onUnwritten: fail });
}

export async function drain(journal: Journal, count = 10): Promise<ScanRow[]> {
  const rows: ScanRow[] = [];
  for (let batch = await journal.read(count); batch !== null; batch = await journal.read(count)) {
    rows.push(...batch.rows);
    batch.commit();
  }
  return rows;
}

export function someRows(count: number): ScanRow[] {
  return Array.from({ length: count }, (_, index) => rowAt(NOW + index, { filename: `${index}.txt` }));
}

/** What a killed process leaves: a folder whose lock nobody holds. */
export function leave(directory: string, name: string, segments: readonly Buffer[]): void {
  const folder = join(directory, name);
  mkdirSync(folder, { recursive: true });
  for (const [index, bytes] of segments.entries()) {
    writeFileSync(join(folder, `${String(index + 1).padStart(9, '0')}.log`), bytes);
  }
}

export function segmentsBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.log'));
}
