// A child process of the tests: scans when no temporary folder or no temporary file can be made or filled, and prints the answers.
import { closeSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultEngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { takeAllDescriptors } from '../fixtures/descriptors.js';
import { loadEngine } from './engine.js';

const [want, databases, ...paths] = process.argv.slice(2);
if (databases === undefined) throw new Error('usage: folder|descriptors|NUMBER|full|room databases files');
const contents = paths.map((path) => readFileSync(path));
const temporaryDirectory = mkdtempSync(join(tmpdir(), 'sluice-starved-'));
await loadEngine({ directories: [databases], temporaryDirectory, limits: defaultEngineLimits });
const before = contents.map((content) => scanBuffer(content));

let taken: number[] = [];
if (want === 'folder') rmSync(temporaryDirectory, { recursive: true });
else if (want === 'descriptors') taken = takeAllDescriptors();
else if (/^\d+$/.test(want ?? '')) leaveDescriptors(Number(want));
else if (want === 'full') fill();
const starved = contents.map((content) => scanBuffer(content));
for (const descriptor of taken) closeSync(descriptor);
// Without descriptors libclamav could not clean up after itself either.
rmSync(temporaryDirectory, { recursive: true, force: true });
process.stdout.write(JSON.stringify({ before, starved }));

/** `room`: the disk of the folder is only too small for what is scanned. */
function fill(): void {
  for (let part = 0; ; part += 1) {
    try {
      writeFileSync(join(temporaryDirectory, `ballast-${part}`), Buffer.alloc(64 * 1024));
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOSPC') return;
      throw error;
    }
  }
}

/** So many are free: enough where a scan begins and ends, too few in its middle. */
function leaveDescriptors(count: number): void {
  taken = takeAllDescriptors();
  for (const descriptor of taken.splice(0, count)) closeSync(descriptor);
}
