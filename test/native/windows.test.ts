// Windows of bytes that are asked about: in how many contents each lies, in all of their layers and in small letters too.
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { defaultEngineLimits, prepareEngine, scanBuffer, windowCounts } from '../../src/engine/clamav/addon.js';
import { hashesOf } from '../../src/engine/clamav/gates/prior.js';
import { numberOf } from '../../src/engine/clamav/gates/window-set.js';
import { zip } from '../fixtures/archives.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { bodySignature, databaseFolder, loadEngine } from './engine.js';

const TEXT = 7;
const windowsOf = (text: string): number[] => hashesOf(TEXT, Buffer.from(text)).map(numberOf);

function optionsFor(folder: string, temporaryDirectory: string, windows: Float64Array) {
  return { directories: [folder], temporaryDirectory, limits: defaultEngineLimits, windows };
}

t.test('each content counts once, whatever layer has it', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.Found', 'malware in here') });
  const [words = 0] = windowsOf('wordsq');
  const [capital = 0] = windowsOf('Capita');
  const [small = 0] = windowsOf('capita');
  const [never = 0] = windowsOf('never!');
  const asked = Float64Array.from([words, capital, small, never]);
  await loadEngine(optionsFor(folder, temporaryFolder(t), asked));
  const plain = 'some wordsq and wordsq once more, Capital letters, and a line of text\n';
  const lower = plain.toLowerCase();
  scanBuffer(Buffer.from(plain));
  scanBuffer(gzipSync(lower));
  scanBuffer(zip([{ name: 'a.txt', content: Buffer.from(lower) }]));
  t.equal(scanBuffer(Buffer.from(`${plain} malware in here, never!`)).virusName, 'Test.Found.UNOFFICIAL');
  const counts = windowCounts() ?? new Float64Array();
  const pairs = Array.from({ length: counts.length / 2 }, (_, at) => [...counts.subarray(2 * at, 2 * at + 2)]);
  t.same(
    new Map(pairs.map(([window, count]) => [window, count])),
    new Map([
      [words, 3],
      [capital, 1],
      [small, 3],
    ]),
  );
});

t.test('an engine that was asked about none counts none', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.Found', 'malware in here') });
  await loadEngine(optionsFor(folder, temporaryFolder(t), new Float64Array()));
  scanBuffer(Buffer.from('some words'));
  t.equal(windowCounts(), null);
});

t.test('what is no hash is refused', async (t) => {
  const folder = databaseFolder(t, { 'a.ndb': bodySignature('Test.Found', 'malware in here') });
  const temporary = temporaryFolder(t);
  for (const number of [-1, 2 ** 39, Number.NaN]) {
    const loading = prepareEngine(optionsFor(folder, temporary, Float64Array.of(number)));
    await t.rejects(loading, { message: /hashes of 39 bits/ });
  }
});
