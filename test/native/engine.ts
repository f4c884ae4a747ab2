// What the native tests share: folders with databases made on the spot, and an engine loaded from them.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  defaultEngineLimits,
  type EngineLimits,
  type LoadOptions,
  type PreparedEngine,
  prepareEngine,
} from '../../src/engine/clamav/addon.js';
import { buildClamav } from '../../src/engine/clamav/engine.js';
import type { Engine } from '../../src/engine/engine.js';
import { serve } from '../../src/engine/engine.js';
import { temporaryFolder } from '../fixtures/folder.js';

export function databaseFolder(
  t: { teardown(undo: () => void): void },
  files: Readonly<Record<string, string | Uint8Array>>,
): string {
  const path = temporaryFolder(t);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, name), content);
  }
  return path;
}

/** A body signature in libclamav's .ndb form: the text, anywhere in any file. */
export function bodySignature(name: string, text: string): string {
  return `${name}:0:*:${Buffer.from(text, 'latin1').toString('hex')}\n`;
}

/** Builds a native engine, which serves from then on without anything around it. */
export async function loadEngine(
  options: LoadOptions,
  onProgress?: (fraction: number) => void,
): Promise<PreparedEngine> {
  const prepared = await prepareEngine(options, onProgress);
  prepared.serve();
  return prepared;
}

/** An engine for scan threads, of one folder. */
export async function serveFolder(
  directory: string,
  temporaryDirectory: string,
  limits: Partial<Omit<EngineLimits, 'maxScanTimeMs'>> = {},
): Promise<Engine> {
  return serve(await buildClamav({ directories: [directory], temporaryDirectory, limits, scanTimeoutMs: 60_000 }));
}

export function load(
  t: { teardown(undo: () => void): void },
  directories: readonly string[],
  limits: Partial<EngineLimits> = {},
): Promise<PreparedEngine> {
  return loadEngine({
    directories,
    temporaryDirectory: temporaryFolder(t),
    limits: { ...defaultEngineLimits, ...limits },
  });
}
