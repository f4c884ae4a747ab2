// What is counted in clean documents, from the files to the answer about a gate; and the file that ships.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { compile, windowsProgram } from '../../../../bench/compile.js';
import { buildPrior, readCounts, renewFormats } from '../../../../bench/prior/build.js';
import { chooseDocuments, isOfHalf } from '../../../../bench/prior/documents.js';
import { readPackages } from '../../../../bench/prior/packages.js';
import type { Gate } from '../../../../src/engine/clamav/gates/candidates.js';
import { openPrior, readPrior } from '../../../../src/engine/clamav/gates/prior.js';
import { ownSignaturesDirectory, priorPath } from '../../../../src/paths.js';
import { temporaryFolder } from '../../../fixtures/folder.js';
import type { Tap } from '../../../fixtures/stores.js';

const [ANY, PROGRAM, OLE2, TEXT, PDF] = [0, 1, 2, 7, 10];
/** Few are not enough to know anything of a class. */
const PACKAGES = 24;
/** Tables for some thousand windows. */
const SIZE = '12';

const hex = (text: string): string => Buffer.from(text, 'latin1').toString('hex');
const gate = (target: number, pattern: string, offset = '*'): Gate => ({ target, offset, pattern });

/** A text in each package, the other half of them with one more that repeats what is in the first. */
async function countSamples(t: Tap): Promise<{ readonly bytes: Buffer; readonly counts: string }> {
  const folder = temporaryFolder(t);
  const lines: string[] = [];
  const put = (name: string, file: string, text: string): void => {
    mkdirSync(join(folder, name), { recursive: true });
    writeFileSync(join(folder, name, file), text);
    lines.push(`${name}\t${join(folder, name, file)}\n`);
  };
  for (let index = 0; index < PACKAGES; index += 1) {
    const own = `only in package ${String.fromCharCode(0x61 + index).repeat(3)}${index * 7919}`;
    put(`package-${index}`, 'a.txt', `Begins Alike, and GOES on ${index}\nwith words of its own: ${own}\n`);
    put(`package-${index}`, 'b.txt', `once more ${index}, twice in a package: ${own} ${own}\n`);
  }
  const [list, counts, output] = ['list', 'counts', 'windows.bin'].map((name) => join(folder, name));
  if (list === undefined || counts === undefined || output === undefined) throw new Error('no paths');
  writeFileSync(list, lines.join(''));
  const program = await compile(windowsProgram);
  execFileSync(program, [join(ownSignaturesDirectory, 'sluice.hdb'), list, counts, SIZE], { stdio: 'ignore' });
  const level = { units: 2, share: 0, bits: 8 };
  await buildPrior(await readCounts([counts]), output, new Map([TEXT, PROGRAM].map((target) => [target, level])));
  return { bytes: readFileSync(output), counts };
}

t.test('a window counts once a package, by the kind of content', async (t) => {
  const { bytes, counts } = await countSamples(t);
  const prior = openPrior(bytes);
  const common = hex('with words of its own');
  t.ok((prior.shareOf(gate(TEXT, common)) ?? 0) > 0.5, 'it is in all of them');
  t.equal(prior.shareOf(gate(TEXT, hex('only in package aaa0'))), 0, 'its end is in one package alone');
  t.ok(prior.shareOf(gate(TEXT, hex('only in package '))), 'its beginning is in all');
  t.equal(prior.shareOf(gate(PROGRAM, common)), null, 'nothing is known of programs');
  t.ok(prior.shareOf(gate(ANY, common)), 'a gate for any content is as common as in the worst of them');
  t.equal(prior.shareOf(gate(TEXT, hex('words'))), null, 'it is shorter than a window');
  t.ok(prior.shareOf(gate(TEXT, hex('begins alike'))), 'text is matched in small letters too');
  t.ok(prior.shareOf(gate(TEXT, `(67|47)(6f|4f)(65|45)(73|53)20(6f|4f)(6e|4e)`)), 'in any case');
  t.equal(prior.shareOf(gate(TEXT, `${hex('with')}??${hex('words of its own')}`)), prior.shareOf(gate(TEXT, common)));
  t.ok(prior.shareOf(gate(TEXT, hex('Begi'), '0')), 'the first bytes of a content');
  t.equal(prior.shareOf(gate(TEXT, hex('Bego'), '0')), 0);
  t.ok(prior.shareOf(gate(TEXT, '42??6769', '0')), 'where one of them is open');
  t.equal(prior.unseenOf(gate(TEXT, common)), 0);
  t.ok(prior.unseenOf(gate(TEXT, hex('Xk2#qZ9!vW7&Yp5'))) > 4, 'nearly all of its windows');
  t.equal(prior.shareOf(gate(TEXT, '00'.repeat(8), 'EOF-8')), 1, 'what fills is everywhere');
  const ask = (file: Buffer) => openPrior(file).shareOf(gate(TEXT, common));
  t.throws(() => ask(bytes.subarray(0, bytes.length - 9)), /cut/);
  t.throws(() => ask(Buffer.from('something else')), /no file of windows/);
  t.throws(() => ask(bytes.subarray(0, bytes.length - 1)), /cut/, 'the set of formats is the last one');
  const [once, twice] = [await readCounts([counts]), await readCounts([counts, counts])];
  const sumOf = ({ windows }: typeof once): number =>
    windows[TEXT]?.reduce((sum, number, count) => sum + number * count, 0) ?? 0;
  t.equal(twice.records.length, once.records.length, 'several counts become one');
  t.equal(twice.units[TEXT], 2 * (once.units[TEXT] ?? 0));
  t.equal(sumOf(twice), 2 * sumOf(once));
});

t.test('the file that ships knows what all programs and documents have', async (t) => {
  const prior = await readPrior();
  t.ok(statSync(priorPath).size <= 8_000_000);
  for (const text of [
    'This program cannot be run in DOS mode',
    'GetProcAddress',
    'VirtualAlloc',
    'requestedExecutionLevel',
  ]) {
    t.ok(prior.shareOf(gate(PROGRAM, hex(text))), text);
  }
  t.ok(prior.shareOf(gate(PDF, hex('/Type /Page'))));
  t.equal(prior.shareOf(gate(PROGRAM, hex('Xk2#qZ9!vW7&Yp5'))), 0);
  const [manifest, module, workbook] = [
    hex(`<assemblyIdentity name='Microsoft.VC90.CRT' type='win32'`),
    hex('Attribute VB_Name = "Module1"\r\n'),
    '0908100000060500',
  ];
  t.ok(prior.shareOf(gate(PROGRAM, manifest)), 'and what formats say, counted or not');
  t.ok(prior.shareOf(gate(OLE2, module, '0')));
  t.ok(prior.shareOf(gate(ANY, workbook, '0')));
  const wide = Buffer.from(`publicKeyToken='6595b`, 'utf16le').toString('hex');
  t.ok(prior.shareOf(gate(PROGRAM, wide)), 'what is in narrow characters counts for wide ones');
});

t.test('the file that ships has what formats say, and all of it', async (t) => {
  const prior = await readPrior();
  const packet = hex(
    '<?xpacket begin="\xef\xbb\xbf" id="W5M0MpCehiHzreSzNTczkc9d"?> <x:xmpmeta xmlns:x="adobe:ns:meta/"',
  );
  for (const target of [ANY, PROGRAM, OLE2, PDF]) t.ok(prior.shareOf(gate(target, packet)), `XMP in ${target}`);
  const library = Buffer.from('COMCTL32.DLL', 'utf16le').toString('hex');
  const [frame, exception] = ['64ff306489208b45fc', '813863736de0752a8378100375248b40143d2005931974153d21059319'];
  const texts = [
    hex('@@@tr1@std@@'),
    hex('MessageBeep'),
    hex('TFindDialog'),
    hex('Time Stamping Signer #1'),
    library,
    frame,
    exception,
  ];
  for (const text of texts) t.ok(prior.shareOf(gate(PROGRAM, text)), text);
  t.ok(prior.shareOf(gate(OLE2, Buffer.from('://', 'utf16le').toString('hex'))), 'an address in wide characters');
  t.ok(prior.shareOf(gate(OLE2, hex(' = -1 Then'))));
  const copy = join(temporaryFolder(t), 'windows.bin');
  copyFileSync(priorPath, copy);
  await renewFormats(copy);
  t.ok(
    readFileSync(copy).equals(readFileSync(priorPath)),
    'npm run prior -- formats was run after the last change of formats',
  );
});

t.test('a half is of whole packages, about half of them, and the same with the same seed', async (t) => {
  const folder = temporaryFolder(t);
  for (let index = 0; index < PACKAGES; index += 1) {
    mkdirSync(join(folder, `package-${index}`));
    for (const file of ['a', 'b']) writeFileSync(join(folder, `package-${index}`, file), `${file} ${index} `.repeat(8));
  }
  const chosen = async (seed: string): Promise<readonly string[]> => {
    const isChosen = (name: string): boolean => isOfHalf(name, seed);
    return (await chooseDocuments(folder, { ofKind: () => 2, isChosen })).map((one) => one.package);
  };
  const [one, other] = [await chosen('one'), await chosen('other')];
  t.equal(one.length, 2 * new Set(one).size, 'both files of each');
  t.ok(one.length > PACKAGES / 2 && one.length < (2 * PACKAGES * 3) / 4, `${one.length} files`);
  t.same(await chosen('one'), one);
  t.notSame(other, one);
});

t.test('what figures are measured with was not counted', async (t) => {
  const nameOf = ({ registry, name }: { registry: string; name: string }): string => `${registry} ${name}`;
  const trained = new Set((await readPackages('training')).map(nameOf));
  const heldOut = (await readPackages('held-out')).map(nameOf);
  t.ok(trained.size > 2_000 && heldOut.length > 200);
  t.same(
    heldOut.filter((name) => trained.has(name)),
    [],
  );
});
