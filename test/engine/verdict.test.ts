// The one reading of libclamav's answer: never clean unless everything was looked at, never infected without a match.
import fc from 'fast-check';
import t from 'tap';
import { isSameBy, type RawAnswer, readAnswer, usualPolicy, type Verdict } from '../../src/engine/verdict.js';

function answer(
  code: number,
  virusName: string | null,
  alerts: string[] = virusName === null ? [] : [virusName],
): RawAnswer {
  return { code, codeText: `code ${code}`, virusName, alerts };
}

const clean: Verdict = { kind: 'clean', encrypted: false };
const encrypted: Verdict = { kind: 'clean', encrypted: true };
const incomplete = (reason: string): Verdict => ({ kind: 'incomplete', reason });
const infected = (virusName: string): Verdict => ({ kind: 'infected', virusName });

const LIMIT = 'Heuristics.Limits.Exceeded.MaxScanSize';
const ZIP = 'Heuristics.Encrypted.Zip';

const cases: [string, RawAnswer, Verdict, Verdict][] = [
  ['nothing found', answer(0, null), clean, clean],
  ['a match', answer(1, 'Win.Test.EICAR_HDB-1'), infected('Win.Test.EICAR_HDB-1'), infected('Win.Test.EICAR_HDB-1')],
  [
    'a limit',
    answer(1, LIMIT),
    incomplete('engine limit exceeded: MaxScanSize'),
    incomplete('engine limit exceeded: MaxScanSize'),
  ],
  [
    'a limit that came as clean',
    answer(0, null, [LIMIT]),
    incomplete('engine limit exceeded: MaxScanSize'),
    incomplete('engine limit exceeded: MaxScanSize'),
  ],
  [
    'an xz dictionary over the limit',
    answer(1, 'Heuristics.XZ.DicSizeLimit'),
    incomplete('engine limit exceeded: DicSizeLimit'),
    incomplete('engine limit exceeded: DicSizeLimit'),
  ],
  ['encrypted', answer(1, ZIP), encrypted, incomplete('content is encrypted')],
  [
    'encrypted and a limit',
    answer(1, ZIP, [ZIP, LIMIT]),
    incomplete('engine limit exceeded: MaxScanSize'),
    incomplete('engine limit exceeded: MaxScanSize'),
  ],
  ['encrypted and a match', answer(1, 'A.B', [ZIP, 'A.B']), infected('A.B'), infected('A.B')],
  ['a limit and a match', answer(1, LIMIT, [LIMIT, 'A.B']), infected('A.B'), infected('A.B')],
  [
    'another heuristic',
    answer(1, 'Heuristics.Phishing.Email'),
    infected('Heuristics.Phishing.Email'),
    infected('Heuristics.Phishing.Email'),
  ],
  [
    'a match without a name',
    answer(1, null),
    incomplete('engine reported a match without a name'),
    incomplete('engine reported a match without a name'),
  ],
  ['out of memory', answer(20, null), incomplete('engine error: code 20'), incomplete('engine error: code 20')],
  [
    'an error while encrypted',
    answer(14, null, [ZIP]),
    incomplete('engine error: code 14'),
    incomplete('engine error: code 14'),
  ],
];

for (const [name, raw, allowed, rejected] of cases) {
  t.test(name, async (t) => {
    t.strictSame(readAnswer(raw, usualPolicy), allowed, 'encrypted content allowed');
    t.strictSame(readAnswer(raw, { ...usualPolicy, encrypted: 'reject' }), rejected, 'encrypted content rejected');
  });
}

t.test('clean only when nothing at all was said, or only that members are encrypted', async () => {
  const name = fc.constantFrom(LIMIT, ZIP, 'Heuristics.Encrypted.PDF', 'A.B', 'Heuristics.Limits.Exceeded.MaxFiles');
  fc.assert(
    fc.property(
      fc.nat(40),
      fc.option(name),
      fc.array(name, { maxLength: 4 }),
      fc.boolean(),
      (code, virusName, alerts, allow) => {
        const verdict = readAnswer(answer(code, virusName, alerts), {
          ...usualPolicy,
          encrypted: allow ? 'allow' : 'reject',
        });
        const names = virusName === null ? alerts : [...alerts, virusName];
        if (verdict.kind === 'infected') return verdict.virusName === 'A.B' && names.includes('A.B');
        if (verdict.kind === 'incomplete') return verdict.reason !== '';
        const onlyEncrypted = names.every((entry) => entry.startsWith('Heuristics.Encrypted.'));
        return code <= 1 && onlyEncrypted && (names.length === 0 ? code === 0 : allow);
      },
    ),
  );
});

t.test('what the engine merely suspects is an infection, unless heuristics are not to count', async (t) => {
  const off = { ...usualPolicy, heuristics: 'off' } as const;
  const name = 'Heuristics.Phishing.Email.SpoofedDomain';
  t.strictSame(readAnswer(answer(1, name), usualPolicy), infected(name));
  t.strictSame(readAnswer(answer(1, name), off), { kind: 'clean', encrypted: false, suspected: name });
  t.strictSame(readAnswer(answer(1, name, [name, 'A.B']), off), infected('A.B'), 'a signature counts');
  t.strictSame(readAnswer(answer(1, name, [name, LIMIT]), off), incomplete('engine limit exceeded: MaxScanSize'));
  t.strictSame(readAnswer(answer(1, name, [name, ZIP]), off), { ...encrypted, suspected: name });
  t.strictSame(readAnswer(answer(1, null), off), incomplete('engine reported a match without a name'));
});

t.test('a remembered verdict counts by another policy only where that would have read the same', async (t) => {
  const reject = { ...usualPolicy, encrypted: 'reject' } as const;
  const off = { ...usualPolicy, heuristics: 'off' } as const;
  for (const policy of [usualPolicy, reject, off]) {
    t.ok(isSameBy(clean, policy));
    t.ok(isSameBy(infected('A.B'), policy));
    t.equal(isSameBy(encrypted, policy), policy !== reject);
    t.equal(isSameBy(infected('Heuristics.W32.Parite.B'), policy), policy !== off);
    t.notOk(isSameBy({ kind: 'clean', encrypted: false, suspected: 'Heuristics.X' }, policy));
  }
});
