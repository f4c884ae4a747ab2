// The signatures that ship: each fires on what it is made for, spares what is close to it, and EICAR follows its standard.
import t from 'tap';
import { scanBuffer } from '../../src/engine/addon.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { gzip, mail, nestedZip, tar, zip } from '../fixtures/archives.js';
import { eicar, signatureSamples } from '../fixtures/samples.js';
import { load } from '../native/engine.js';

const EICAR_NAME = 'Sluice.Test.EICAR.UNOFFICIAL';
const CLEAN = { code: 0, codeText: 'No viruses detected', virusName: null, alerts: [] };

t.before(() => load(t, [ownSignaturesDirectory]));

t.test('every shipped signature has samples', async (t) => {
  const { readFileSync } = await import('node:fs');
  const names = readFileSync(`${ownSignaturesDirectory}/sluice.ldb`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => line.split(';')[0]);
  t.same(names, ['Sluice.Test.EICAR', ...signatureSamples.map((samples) => samples.signature)]);
});

for (const { signature, fires, spares } of signatureSamples) {
  t.test(`${signature} fires on what it is made for`, async (t) => {
    for (const content of fires) {
      t.equal(scanBuffer(content).virusName, `${signature}.UNOFFICIAL`, content.toString('latin1'));
      const packed = zip([{ name: 'member', content }]);
      t.equal(scanBuffer(packed).virusName, `${signature}.UNOFFICIAL`, 'inside a ZIP');
    }
  });
  t.test(`${signature} spares what is close to it`, async (t) => {
    for (const content of spares) t.match(scanBuffer(content), CLEAN, content.toString('latin1'));
  });
}

t.test('EICAR is found with whitespace behind it, up to 128 bytes in all', async (t) => {
  const tails = ['', ' ', '\t', '\n', '\r\n', '\x1a', ' \t\r\n\x1a'.repeat(12)];
  for (const tail of tails) {
    const content = Buffer.concat([eicar(), Buffer.from(tail)]);
    t.equal(scanBuffer(content).virusName, EICAR_NAME, `tail ${JSON.stringify(tail)}`);
  }
  t.equal(eicar().length + ' \t\r\n\x1a'.repeat(12).length, 128);
});

t.test('what is not EICAR by its standard is clean', async (t) => {
  const almost: Record<string, Buffer> = {
    'a byte before it': Buffer.concat([Buffer.from(' '), eicar()]),
    'text behind it': Buffer.concat([eicar(), Buffer.from('\nhello')]),
    'text behind whitespace': Buffer.concat([eicar(), Buffer.from('   x')]),
    'a null byte behind it': Buffer.concat([eicar(), Buffer.alloc(1)]),
    'a vertical tab behind it': Buffer.concat([eicar(), Buffer.from('\v')]),
    '129 bytes': Buffer.concat([eicar(), Buffer.alloc(61, ' ')]),
    'one byte less': eicar().subarray(0, 67),
    'lower case': Buffer.from(eicar().toString('latin1').toLowerCase(), 'latin1'),
  };
  for (const [what, content] of Object.entries(almost)) t.match(scanBuffer(content), CLEAN, what);
});

t.test('EICAR with any one byte changed is clean', async (t) => {
  for (let index = 0; index < 68; index += 1) {
    const content = eicar();
    content[index] = (content[index] ?? 0) ^ 1;
    t.match(scanBuffer(content), CLEAN, `byte ${index}`);
  }
});

t.test('EICAR is found inside archives and mails', async (t) => {
  const member = { name: 'eicar.com', content: eicar() };
  const packed: Record<string, Buffer> = {
    zip: zip([member]),
    'second in a zip': zip([{ name: 'readme.txt', content: Buffer.from('hello') }, member]),
    gzip: gzip(eicar()),
    tar: tar([member]),
    'tar.gz': gzip(tar([member])),
    'zip in zip in zip': nestedZip(eicar(), 3),
    mail: mail(eicar()),
    'zip in a mail': mail(zip([member])),
    'with whitespace in a zip': zip([{ name: 'e', content: Buffer.concat([eicar(), Buffer.from('\r\n')]) }]),
  };
  for (const [what, content] of Object.entries(packed)) t.equal(scanBuffer(content).virusName, EICAR_NAME, what);
});
