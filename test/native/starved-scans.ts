// A child process of the tests: scans when no temporary folder or no temporary file can be made, and prints the answers.
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultEngineLimits, loadEngine, scanBuffer } from '../../src/engine/addon.js';

const [want, databases, ...paths] = process.argv.slice(2);
if (databases === undefined) throw new Error('usage: folder|descriptors databases files');
const contents = paths.map((path) => readFileSync(path));
const temporaryDirectory = mkdtempSync(join(tmpdir(), 'sluice-starved-'));
await loadEngine({ directories: [databases], temporaryDirectory, limits: defaultEngineLimits });
const before = contents.map((content) => scanBuffer(content));

const taken: number[] = [];
if (want === 'folder') rmSync(temporaryDirectory, { recursive: true });
else takeAllDescriptors();
const starved = contents.map((content) => scanBuffer(content));
for (const descriptor of taken) closeSync(descriptor);
// Without descriptors libclamav could not clean up after itself either.
rmSync(temporaryDirectory, { recursive: true, force: true });
process.stdout.write(JSON.stringify({ before, starved }));

function takeAllDescriptors(): void {
  for (;;) {
    try {
      taken.push(openSync('/dev/null', 'r'));
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EMFILE') return;
      throw error;
    }
  }
}
