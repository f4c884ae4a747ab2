// What the native tests share: folders with databases made on the spot, and an engine loaded from them.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultEngineLimits, type EngineLimits, type LoadedEngine, loadEngine } from '../../src/engine/addon.js';

/** A folder that goes away with the test. */
export function temporaryFolder(t: { teardown(undo: () => void): void }): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-native-'));
  t.teardown(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

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

export function load(
  t: { teardown(undo: () => void): void },
  directories: readonly string[],
  limits: Partial<EngineLimits> = {},
): Promise<LoadedEngine> {
  return loadEngine({
    directories,
    temporaryDirectory: temporaryFolder(t),
    limits: { ...defaultEngineLimits, ...limits },
  });
}
