// The signatures that ship, by both engines: each fires on what it is made for, spares what is close to it, and EICAR follows its standard.
import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Expression } from '../../src/engine/clamav/gates/expression.js';
import { CELLS } from '../../src/engine/clamav/gates/prior.js';
import { parseSignature } from '../../src/engine/clamav/gates/signature.js';
import { ownRulesDirectory, ownSignaturesDirectory } from '../../src/paths.js';
import { gzip, mail, nestedZip, tar, zip } from '../fixtures/archives.js';
import { startEngine } from '../fixtures/engines.js';
import { eicar, signatureSamples } from '../fixtures/samples.js';

const EICAR = { kind: 'infected', virusName: 'Sluice.Test.EICAR.UNOFFICIAL' };
const CLEAN = { kind: 'clean', encrypted: false };
const NOT_OPENED = { kind: 'incomplete', reason: /^engine cannot unpack / };

t.test('every shipped signature has samples, and the same name in both forms', async (t) => {
  const own = readFileSync(`${ownSignaturesDirectory}/sluice.ldb`, 'utf8').trim().split('\n').slice(1);
  const names = own.map((line) => line.split(';')[0]);
  t.same(names, ['Sluice.Test.EICAR', ...signatureSamples.map((samples) => samples.signature)]);
  const rules = readFileSync(`${ownRulesDirectory}/sluice.yar`, 'utf8');
  const given = [...rules.matchAll(/virus_name = "([^"]+)"/g)].map(([, name]) => name);
  t.same(given.sort(), [...names, 'Sluice.Test.ClamAV-Test-File'].sort());
});

/** Whether an expression is true where all of these subsignatures match, and no other. */
function isTrue(expression: Expression, matching: readonly boolean[]): boolean {
  if (expression.kind === 'subsignature') return matching[expression.index] ?? false;
  if (expression.kind === 'all') return expression.of.every((one) => isTrue(one, matching));
  if (expression.kind === 'any') return expression.of.some((one) => isTrue(one, matching));
  throw new Error('no shipped trigger counts');
}

t.test('no regular expression runs over large contents because of a few bytes that are there by chance', async (t) => {
  const lines = readFileSync(`${ownSignaturesDirectory}/sluice.ldb`, 'utf8').trim().split('\n').slice(1);
  for (const line of lines) {
    const parsed = parseSignature(line);
    if (!parsed.understood) throw new Error(line);
    const { name, subsignatures } = parsed.signature;
    const byChance = subsignatures.map((one) => one.kind === 'body' && (one.pattern.match(CELLS) ?? []).length < 5);
    for (const one of subsignatures) {
      if (one.kind === 'pcre') t.equal(one.trigger === null || isTrue(one.trigger, byChance), false, name);
    }
  }
});

for (const engine of ['clamav', 'yara'] as const) {
  t.test(engine, async (t) => {
    const { verdict } = await startEngine(t, { engine });
    const packed = engine === 'clamav';

    for (const { signature, fires, spares } of signatureSamples) {
      const infected = { kind: 'infected', virusName: `${signature}.UNOFFICIAL` };
      t.test(`${signature} fires on what it is made for`, async (t) => {
        for (const content of fires) {
          t.same(await verdict(content), infected, content.toString('latin1'));
          t.match(await verdict(zip([{ name: 'member', content }])), packed ? infected : NOT_OPENED, 'inside a ZIP');
        }
      });
      t.test(`${signature} spares what is close to it`, async (t) => {
        for (const content of spares) t.same(await verdict(content), CLEAN, content.toString('latin1'));
      });
    }

    t.test('EICAR is found with whitespace behind it, up to 128 bytes in all', async (t) => {
      const tails = ['', ' ', '\t', '\n', '\r\n', '\x1a', ' \t\r\n\x1a'.repeat(12)];
      for (const tail of tails) {
        const content = Buffer.concat([eicar(), Buffer.from(tail)]);
        t.same(await verdict(content), EICAR, `tail ${JSON.stringify(tail)}`);
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
      for (const [what, content] of Object.entries(almost)) t.same(await verdict(content), CLEAN, what);
    });

    t.test('EICAR with any one byte changed is clean', async (t) => {
      for (let index = 0; index < 68; index += 1) {
        const content = eicar();
        content[index] = (content[index] ?? 0) ^ 1;
        t.same(await verdict(content), CLEAN, `byte ${index}`);
      }
    });

    t.test(packed ? 'EICAR is found inside archives and mails' : 'archives and mails are incomplete', async (t) => {
      const member = { name: 'eicar.com', content: eicar() };
      const containers: Record<string, Buffer> = {
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
      for (const [what, content] of Object.entries(containers)) {
        t.match(await verdict(content), packed ? EICAR : NOT_OPENED, what);
      }
    });
  });
}
