// A process with one engine, with gates or without, that says what it finds in what it is sent.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { defaultEngineLimits, gateStatistics, loadEngine, scanBuffer } from '../../src/engine/addon.js';
import { prepareGates } from '../../src/engine/clamav/gates/prepare.js';
import { readAnswer } from '../../src/engine/verdict.js';

const [database = '', store = ''] = process.argv.slice(2);
const scratch = mkdtempSync(join('/dev/shm', 'sluice-equivalence-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
process.on('disconnect', () => process.exit());

const gates = store === '' ? null : (await prepareGates([database], store)).files;
// Time must not decide between them.
const limits = { ...defaultEngineLimits, maxScanTimeMs: 600_000 };
const { signatureCount } = await loadEngine({ directories: [database], temporaryDirectory: scratch, limits, gates });
process.on('message', (contents: Uint8Array[]) => {
  const verdicts = contents.map((content) => {
    const verdict = readAnswer(scanBuffer(content), 'allow');
    if (verdict.kind === 'infected') return `infected ${verdict.virusName}`;
    return verdict.kind === 'clean' ? `clean ${verdict.encrypted}` : `${verdict.kind} ${verdict.reason}`;
  });
  process.send?.({ verdicts, statistics: gateStatistics() });
});
process.send?.({ signatureCount });
