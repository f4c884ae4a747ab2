// A child process of the tests, with their addon: scans contents while one map of memory fails, each of them in turn, and prints the answers; the last one of each has all its maps.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultEngineLimits, type EngineAnswer, scanBuffer } from '../../src/engine/clamav/addon.js';
import { gzip, mail, nestedZip, tar, zip } from '../fixtures/archives.js';
import { faultAddonPath } from '../fixtures/faults.js';
import { loadEngine } from './engine.js';

const [databases] = process.argv.slice(2);
if (databases === undefined) throw new Error('usage: mapless-scans DATABASES');
const { withoutMap }: { withoutMap(count: number, work: () => void): boolean } = createRequire(import.meta.url)(
  faultAddonPath,
);
const temporaryDirectory = mkdtempSync(join(tmpdir(), 'sluice-mapless-'));
await loadEngine({ directories: [databases], temporaryDirectory, limits: defaultEngineLimits });

const mark = Buffer.from('a mark of this test');
/** More than a thread keeps pages for. */
const large = Buffer.concat([Buffer.alloc(1_000_000, 'x'), mark]);
const member = { name: 'inner', content: mark };
const contents: Readonly<Record<string, Buffer>> = {
  'a zip': zip([member]),
  'a tar in gzip': gzip(tar([member])),
  'zips in each other': nestedZip(mark, 4),
  'a mail': mail(zip([member])),
  'a large member': zip([{ name: 'inner', content: large }]),
  'a large one in gzip': gzip(large),
};
const all = Object.entries(contents).map(([what, content]) => {
  const scans: EngineAnswer[] = [];
  while (withoutMap(scans.length, () => scans.push(scanBuffer(content))));
  return { what, scans };
});
rmSync(temporaryDirectory, { recursive: true, force: true });
process.stdout.write(JSON.stringify(all));
