// Ordinary archives and documents: `node dist/test/containers/ordinary-main.js [COUNT]` (2,000). Prints those that aren't plainly clean.
import { ownSignaturesDirectory } from '../../src/paths.js';
import { load } from '../native/engine.js';
import { verdictOf } from './compare.js';
import { ordinary } from './ordinary.js';

const count = Number(process.argv[2] ?? 2000);
const undo: (() => void)[] = [];
await load({ teardown: (one) => undo.push(one) }, [ownSignaturesDirectory]);
let wrong = 0;
let looked = 0;
for (const { what, bytes } of ordinary(count)) {
  const verdict = verdictOf(bytes);
  looked += 1;
  if (verdict === 'clean') continue;
  wrong += 1;
  process.stdout.write(`${what} (${bytes.length} bytes): ${verdict}\n`);
}
process.stdout.write(`${wrong} of ${looked} are not clean\n`);
for (const one of undo) one();
process.exitCode = wrong === 0 ? 0 : 1;
