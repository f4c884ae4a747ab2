// The contents that the two engines are compared on: made anew from a number, so that a difference can be had again.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { LogicalSignature } from '../../src/engine/clamav/gates/signature.js';
import { parseSignature } from '../../src/engine/clamav/gates/signature.js';
import { mail, tar, zip } from '../fixtures/archives.js';
import { generator, type Random } from '../fixtures/random.js';
import { type Satisfying, satisfying, spoiled, withoutNeed } from '../fixtures/satisfying.js';

export interface Cases {
  /** Signatures that content can be made for. */
  readonly makeable: number;
  readonly count: number;
  /** Null: a number beyond the last one. */
  at(number: number): Buffer | null;
  /** What the content with the number is made of. */
  describe(number: number): string;
}

/** What all processes of a comparison make their contents of. */
export interface CasesOrder {
  /** Of a file with a logical or extended signature in each line. */
  readonly linesPath: string;
  /** More of such lines. */
  readonly triggers: readonly string[];
  readonly cleanFiles: readonly string[];
  readonly seed: number;
  /** So often all forms of all signatures. */
  readonly rounds: number;
}

/** What is done to content that a signature matches. */
const FORMS: readonly ((made: Satisfying, random: Random) => Buffer)[] = [
  ({ content }) => content,
  (made, random) => withoutNeed(made, random),
  ({ content }) => zip([{ name: 'a', content }]),
  ({ content }) => mail(content),
  (made, random) => zip([{ name: 'a', content: withoutNeed(made, random) }]),
  ({ content }) => gzipSync(content),
  (made, random) => mail(withoutNeed(made, random)),
  ({ content }) => mail(zip([{ name: 'a.exe', content }])),
  ({ content }, random) => mutated(content, random),
  ({ content }) => tar([{ name: 'a', content }]),
  ({ content }) => Buffer.concat([Buffer.from('words of plain text\n'.repeat(160)), mail(content)]),
  ({ content }, random) => mutated(zip([{ name: 'a', content }]), random),
  ({ content }, random) => content.subarray(0, Math.ceil(content.length * random())),
  ({ content }) =>
    Buffer.concat([Buffer.from('<html><body>a line</body></html>\n'), mail(zip([{ name: 'b.js', content }]))]),
  (made, random) => gzipSync(withoutNeed(made, random)),
  ({ content }, random) => withCaseChanged(content, random),
];

function mutated(content: Buffer, random: Random): Buffer {
  let other = content;
  for (let count = 1 + Math.floor(random() * 8); count > 0; count -= 1) other = spoiled(other, random);
  return other;
}

/** Some letters are as large as they were small, or the other way round. */
function withCaseChanged(content: Buffer, random: Random): Buffer {
  const isLetter = (byte: number): boolean => (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a);
  return Buffer.from(content.map((byte) => (isLetter(byte) && random() < 0.5 ? byte ^ 0x20 : byte)));
}

export function casesOf({ linesPath, triggers, cleanFiles, seed, rounds }: CasesOrder): Cases {
  const made: { readonly signature: LogicalSignature; readonly line: string }[] = [];
  for (const line of [...readFileSync(linesPath, 'latin1').split('\n'), ...triggers]) {
    const parsed = parseSignature(line);
    if (parsed.understood && satisfying(parsed.signature, line) !== null)
      made.push({ signature: parsed.signature, line });
  }
  const generated = made.length * FORMS.length * rounds;
  const placeOf = (number: number) => {
    const place = number - cleanFiles.length;
    return { place, one: made[place % made.length], form: Math.floor(place / made.length) % FORMS.length };
  };
  return {
    makeable: made.length,
    count: cleanFiles.length + generated,
    at(number) {
      const path = cleanFiles[number];
      if (path !== undefined) return readFileSync(path);
      const { place, one, form } = placeOf(number);
      if (one === undefined || place >= generated) return null;
      const content = satisfying(one.signature, one.line);
      return content === null ? null : (FORMS[form]?.(content, generator(seed + number)) ?? null);
    },
    describe(number) {
      const { one, form } = placeOf(number);
      return cleanFiles[number] ?? `${one?.signature.name}, form ${form}`;
    },
  };
}
