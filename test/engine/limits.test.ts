// Every limit with content just under and just over it, bombs of every kind, and encrypted content. Nothing is called clean
// that was not looked at. Content under a limit is looked at to its last byte.
import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { defaultEngineLimits, type EngineLimits, scanBuffer } from '../../src/engine/clamav/addon.js';
import { type EncryptedPolicy, readAnswer, usualPolicy, type Verdict } from '../../src/engine/verdict.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { gzip, type Member, nestedZip, tar, zip } from '../fixtures/archives.js';
import { agile } from '../fixtures/office-encryption.js';
import { eicar } from '../fixtures/samples.js';
import { ole2, pdf, rar, sealedDoc, sevenZip, sevenZipMember } from '../fixtures/sealed.js';
import { databaseFolder, load } from '../native/engine.js';

const MIB = 1024 * 1024;
const INFECTED: Verdict = { kind: 'infected', virusName: 'Sluice.Test.EICAR.UNOFFICIAL' };
const virus: Member = { name: 'eicar.com', content: eicar() };
const harmless = Buffer.from('harmless text of a few words\n'.repeat(20));

function exceeded(limit: string): Verdict {
  return { kind: 'incomplete', reason: `engine limit exceeded: ${limit}` };
}

function scan(content: Uint8Array, policy: EncryptedPolicy = 'allow'): Verdict {
  return readAnswer(scanBuffer(content), { ...usualPolicy, encrypted: policy });
}

function limited(t: Test, limits: Partial<EngineLimits>): Promise<unknown> {
  return load(t, [ownSignaturesDirectory], limits);
}

/** The last size whose virus is found; every one beyond must be reported as over the limit. */
function edgeOf(t: Test, limit: string, sizes: readonly number[], make: (size: number) => Uint8Array): number {
  const verdicts = sizes.map((size) => scan(make(size)));
  const edge = verdicts.findLastIndex(({ kind }) => kind === 'infected');
  for (const [index, verdict] of verdicts.entries()) {
    t.strictSame(verdict, index <= edge ? INFECTED : exceeded(limit), `${limit}: ${sizes[index]}`);
  }
  t.ok(edge >= 0 && edge < sizes.length - 1, `${limit} has an edge among ${sizes.join(', ')}`);
  return sizes[edge] ?? 0;
}

function upTo(last: number, first = 1): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

function nested(wrap: (content: Uint8Array) => Uint8Array, depth: number): Uint8Array {
  let content: Uint8Array = eicar();
  for (let level = 0; level < depth; level += 1) content = wrap(content);
  return content;
}

const hexOf = (text: string): string => Buffer.from(text.padStart(8, '-')).toString('hex');

const inTar = (content: Uint8Array): Uint8Array => tar([{ name: 'inner', content }]);

t.test('recursion: the virus is found at the last depth, and reported as too deep behind it', async (t) => {
  for (const maxRecursion of [4, 10, defaultEngineLimits.maxRecursion]) {
    await limited(t, { maxRecursion });
    const depths = upTo(maxRecursion + 4);
    const edges = [
      edgeOf(t, 'MaxRecursion', depths, (depth) => nested(inTar, depth)),
      edgeOf(t, 'MaxRecursion', depths, (depth) => nested(gzip, depth)),
    ];
    t.strictSame(edges, [maxRecursion - 1, maxRecursion - 1], 'the content itself is one layer');
    // Those within the last one that libclamav opens are looked for here.
    for (const depth of depths) t.strictSame(scan(nestedZip(eicar(), depth)), INFECTED, `zip: ${depth}`);
    t.strictSame(scan(nestedZip(harmless, maxRecursion)), exceeded('MaxRecursion'));
  }
});

t.test('files: the virus is the last one that is looked at, or behind it', async (t) => {
  await limited(t, { maxFiles: 50 });
  const padding = (count: number): Member[] =>
    upTo(count).map((index) => ({ name: `f${index}`, content: Buffer.from(`file ${index} `.repeat(9)) }));
  edgeOf(t, 'MaxFiles', upTo(60, 40), (count) => zip([...padding(count - 1), virus]));
  edgeOf(t, 'MaxFiles', upTo(60, 40), (count) => tar([...padding(count - 1), virus]));
});

t.test('scan size: to the byte, for plain content and for what it unpacks to', async (t) => {
  const maxScanSizeBytes = 2 * MIB;
  await limited(t, { maxScanSizeBytes });
  t.strictSame(scan(Buffer.alloc(maxScanSizeBytes, 'x')), { kind: 'clean', encrypted: false });
  t.strictSame(scan(Buffer.alloc(maxScanSizeBytes + 1, 'x')), exceeded('MaxScanSize'));
  const around = [MIB, 2 * MIB - 8192, 2 * MIB - 4096, 2 * MIB, 2 * MIB + 1, 3 * MIB];
  const large = (size: number): Member => ({ name: 'large.bin', content: Buffer.alloc(size) });
  for (const size of around) {
    t.strictSame(scan(zip([large(size), virus])), INFECTED, `what is too large ends no scan: ${size}`);
    const verdict = scan(zip([large(size), { name: 'harmless', content: harmless }]));
    t.equal(verdict.kind, size < 2 * MIB ? 'clean' : 'incomplete', String(size));
  }
  const packed: Record<string, (content: Uint8Array) => Uint8Array> = {
    gzip,
    pdf,
    zip: (content) => zip([{ name: 'a', content }]),
  };
  for (const [kind, pack] of Object.entries(packed)) {
    t.strictSame(scan(pack(Buffer.alloc(MIB / 2))), { kind: 'clean', encrypted: false }, `${kind}: under`);
    t.strictSame(scan(pack(Buffer.alloc(3 * MIB))), exceeded('MaxScanSize'), `${kind}: over`);
  }
});

t.test('time: the same content is looked at whole, or reported as too slow', async (t) => {
  const slow = zip([...upTo(20).map((index) => ({ name: `${index}`, content: Buffer.alloc(2 * MIB) })), virus]);
  await limited(t, {});
  t.strictSame(scan(slow), INFECTED);
  await limited(t, { maxScanTimeMs: 1 });
  t.strictSame(scan(slow), exceeded('MaxScanTime'));
});

t.test('a time limit that the self-test could not meet keeps no engine away, and counts for contents', async (t) => {
  // Each of these is some work for every content; together they take longer than the limit.
  const slow = upTo(60_000).map(
    (index) => `Slow.N${index};Engine:81-255,Target:0;0&1;${hexOf(`a${index}`)};${hexOf(`b${index}`)}\n`,
  );
  const folder = databaseFolder(t, { 'slow.ldb': slow.join('') });
  await load(t, [ownSignaturesDirectory, folder], { maxScanTimeMs: 1 });
  t.strictSame(scan(eicar()), exceeded('MaxScanTime'));
});

t.test('bombs under the default limits end as incomplete', async (t) => {
  await limited(t, {});
  // Five levels of sixteen, as 42.zip has them: a million megabytes at the bottom.
  let level: Buffer = zip([{ name: 'zeros', content: Buffer.alloc(MIB) }]);
  for (let depth = 0; depth < 5; depth += 1) {
    const content = level;
    level = zip(upTo(16).map((index) => ({ name: `${depth}-${index}.zip`, content })));
  }
  const zeros = Buffer.alloc(defaultEngineLimits.maxScanSizeBytes + MIB);
  const bombs: Record<string, Uint8Array> = {
    '42-style nesting': level,
    'a deep tar': nested(inTar, 40),
    'a deep tar.gz': gzip(nested(inTar, 40)),
    'a deep gzip': nested(gzip, 40),
    'a gzip of zeros': gzip(zeros),
    'a tar.gz of zeros': gzip(tar([{ name: 'zeros', content: zeros }])),
    'a PDF with a huge stream': pdf(zeros),
    'more members than are looked at': zip(
      upTo(12_000).map((index) => ({ name: `${index}`, content: Buffer.from(`${index} is a number`) })),
    ),
  };
  for (const [what, content] of Object.entries(bombs)) {
    t.match(scan(content), { kind: 'incomplete', reason: /^engine limit exceeded: / }, what);
  }
});

t.test('what is encrypted is reported, alone and inside of an archive, and refused where that is wanted', async (t) => {
  await limited(t, {});
  const sealed: Record<string, Uint8Array> = {
    zip: zip([{ name: 'secret.txt', content: harmless, encrypted: true }]),
    '7z with sealed names': sevenZip(90),
    '7z with a sealed member': sevenZipMember(90),
    pdf: pdf(harmless, { encrypted: true }),
    'an office package': agile(zip([{ name: 'a', content: harmless }]), { password: 'another' }),
    'a Word document': sealedDoc(),
  };
  for (const [what, content] of Object.entries(sealed)) {
    const member: Member = { name: 'sealed.bin', content };
    for (const each of [content, zip([member]), gzip(tar([member]))]) {
      t.strictSame(scan(each), { kind: 'clean', encrypted: true }, what);
      t.strictSame(scan(each, 'reject'), { kind: 'incomplete', reason: 'content is encrypted' }, what);
    }
    t.strictSame(scan(zip([member, virus])), INFECTED, `${what}, then infected`);
    t.strictSame(scan(zip([virus, member])), INFECTED, `infected, then ${what}`);
    const deep: Member = { name: 'deep.zip', content: nestedZip(harmless, 30) };
    t.strictSame(scan(zip([member, deep])), exceeded('MaxRecursion'), `${what}, then too deep`);
    t.strictSame(scan(zip([deep, member])), exceeded('MaxRecursion'), `too deep, then ${what}`);
  }
});

t.test('documents that only speak of it are not sealed', async (t) => {
  await limited(t, {});
  const prose = Buffer.alloc(4096);
  prose.write('The stream is called EncryptedPackage, and its key EncryptionInfo.', 'utf16le');
  const fib = Buffer.alloc(4096);
  fib.set([0xec, 0xa5, 0xc1, 0x00, 0, 0, 0, 0, 0, 0, 0, 0x12]);
  const document = ole2([
    { name: '1Table', content: prose },
    { name: 'WordDocument', content: fib },
  ]);
  t.strictSame(scan(document), { kind: 'clean', encrypted: false });
  t.strictSame(scan(pdf(harmless)), { kind: 'clean', encrypted: false });
});

t.test('a RAR is looked into, or reported as not looked into', async (t) => {
  await limited(t, {});
  // libclamav has no unpacker of its own for it: Debian's is not part of its free software.
  const cannot: Verdict = { kind: 'incomplete', reason: 'engine cannot unpack RAR' };
  const isUnpacked = scan(rar(eicar())).kind === 'infected';
  const program = readFileSync('/bin/true');
  for (const wrap of [
    (content: Uint8Array) => content,
    (content: Uint8Array) => zip([{ name: 'a.rar', content }]),
    // As archives that unpack themselves are made.
    (content: Uint8Array) => Buffer.concat([program, content]),
    gzip,
  ]) {
    t.strictSame(scan(wrap(rar(eicar()))), isUnpacked ? INFECTED : cannot);
    t.strictSame(scan(wrap(rar(harmless))), isUnpacked ? { kind: 'clean', encrypted: false } : cannot);
    t.strictSame(
      scan(wrap(rar(harmless, { encrypted: true }))),
      isUnpacked ? { kind: 'clean', encrypted: true } : cannot,
    );
  }
  t.strictSame(scan(zip([{ name: 'a.rar', content: rar(harmless) }, virus])), INFECTED, 'a virus beside it is found');
  const beginnings = {
    'RAR 4: marker, and the header of the archive, 13 bytes of kind 0x73': '526172211a0700cf907300000d00',
    'the same with the version that encrypts in it': '526172211a0700cf907300020e00',
    'RAR 5 with a header whose size takes two bytes': '526172211a07010011223344850101',
    'and three': '526172211a070100112233448580000104',
  };
  for (const [what, begin] of Object.entries(beginnings)) {
    if (isUnpacked) continue;
    const archive = Buffer.concat([Buffer.from(begin, 'hex'), Buffer.alloc(40)]);
    t.strictSame(scan(Buffer.concat([program, archive])), cannot, what);
  }
  if (!isUnpacked) t.strictSame(scan(Buffer.from('RE~^ as archives began before')), cannot);
  const mentioned = Buffer.concat([program, Buffer.from('Rar!\x1a\x07\x00 and Rar!\x1a\x07\x01\x00 begin archives')]);
  t.strictSame(scan(mentioned), { kind: 'clean', encrypted: false }, 'who only knows the marker holds none');
});
