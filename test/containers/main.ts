// Many containers: `node dist/test/containers/main.js [COUNT] [SEED]` (1,000, 1). Prints what is wrong, and how many were what.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { load } from '../native/engine.js';
import { compare, complaintAbout } from './compare.js';
import { containers } from './containers.js';

const [count = 1000, seed = 1] = process.argv.slice(2).map(Number);
const undo: (() => void)[] = [];
await load({ teardown: (one) => undo.push(one) }, [ownSignaturesDirectory]);
const folder = mkdtempSync(join(tmpdir(), 'sluice-containers-'));
const counts = new Map<string, number>();
let wrong = 0;
for await (const compared of compare(containers(seed, count), folder)) {
  const row = `${compared.tools === '' ? 'nobody opens it' : 'a tool opens it'}: ${compared.verdict}`;
  counts.set(row, (counts.get(row) ?? 0) + 1);
  const complaint = complaintAbout(compared);
  if (complaint === undefined) continue;
  wrong += 1;
  process.stdout.write(`${complaint} (${compared.path})\n`);
}
for (const [row, many] of [...counts].sort((a, b) => b[1] - a[1])) process.stdout.write(`${many}  ${row}\n`);
process.stdout.write(`${wrong} of ${count} are wrong\n`);
for (const one of undo) one();
if (wrong === 0) rmSync(folder, { recursive: true });
process.exitCode = wrong === 0 ? 0 : 1;
