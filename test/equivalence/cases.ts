// The contents that the two engines are compared on: made anew from a number, so that a difference can be had again.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { LogicalSignature } from '../../src/engine/clamav/gates/signature.js';
import { parseSignature } from '../../src/engine/clamav/gates/signature.js';
import { mail, tar, zip } from '../fixtures/archives.js';
import { type Random, randomFrom, satisfying, spoiled } from '../fixtures/satisfying.js';

export interface Case {
  readonly what: string;
  readonly content: Buffer;
  /** The place of the signature in the database that it is made for; null: it should match none. */
  readonly signature: number | null;
}

export interface Cases {
  /** Signatures that content can be made for. */
  readonly makeable: number;
  readonly signatures: number;
  readonly cleanFiles: number;
  /** Null: a number beyond the last one. */
  at(number: number): Case | null;
  readonly count: number;
}

/** What is done to content that a signature matches. */
const FORMS: readonly ((content: Buffer, random: Random, name: string) => Buffer)[] = [
  (content) => content,
  (content, random) => spoiled(content, random),
  (content) => zip([{ name: 'a', content }]),
  (content) => mail(content),
  (content, random) => zip([{ name: 'a', content: spoiled(content, random) }]),
  (content) => gzipSync(content),
  (content, random) => mail(spoiled(content, random)),
  (content) => mail(zip([{ name: 'a.exe', content }])),
  (content, random) => mutated(content, random),
  (content) => tar([{ name: 'a', content }]),
  (content) => Buffer.concat([Buffer.from('words of plain text\n'.repeat(160)), mail(content)]),
  (content, random) => mutated(zip([{ name: 'a', content }]), random),
  (content, random) => content.subarray(0, Math.ceil(content.length * random())),
  (content) =>
    Buffer.concat([Buffer.from('<html><body>a line</body></html>\n'), mail(zip([{ name: 'b.js', content }]))]),
];

function mutated(content: Buffer, random: Random): Buffer {
  let other = content;
  for (let count = 1 + Math.floor(random() * 8); count > 0; count -= 1) other = spoiled(other, random);
  return other;
}

export function casesOf(lines: readonly string[], cleanFiles: readonly string[], seed: number, rounds: number): Cases {
  const made: { readonly index: number; readonly signature: LogicalSignature; readonly line: string }[] = [];
  for (const [index, line] of lines.entries()) {
    const parsed = parseSignature(line);
    if (parsed.understood && satisfying(parsed.signature, line) !== null)
      made.push({ index, signature: parsed.signature, line });
  }
  const generated = made.length * FORMS.length * rounds;
  return {
    makeable: made.length,
    signatures: lines.length,
    cleanFiles: cleanFiles.length,
    count: cleanFiles.length + generated,
    at(number) {
      const path = cleanFiles[number];
      if (path !== undefined) return { what: path, content: readFileSync(path), signature: null };
      const place = number - cleanFiles.length;
      const one = made[place % made.length];
      const form = Math.floor(place / made.length) % FORMS.length;
      if (one === undefined || place >= generated) return null;
      const random = randomFrom(seed + number);
      const content = satisfying(one.signature, one.line);
      const change = FORMS[form];
      if (content === null || change === undefined) return null;
      return {
        what: `${one.signature.name}, form ${form}`,
        content: change(content, random, one.signature.name),
        signature: form === 0 ? one.index : null,
      };
    },
  };
}
