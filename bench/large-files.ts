// Large contents that take an engine long, made from a seed: PDF documents of 4 to 7 MB, and archives of 10 MB.
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { zip } from '../test/fixtures/archives.js';
import { generator, type Random } from '../test/fixtures/random.js';
import type { FileSet } from './files.js';

const MIB = 1024 * 1024;
const WORDS = 20_000;
/** Of each document, before its streams are compressed to about half. */
const PAGE_LINES = 60;
const LINE_WORDS = 12;
const CURVES = 150;
const DOCUMENT_BYTES = [4 * MIB, 5.5 * MIB, 7 * MIB];
/** Within the limit of an upload, with what the last member is over it. */
const ARCHIVE_BYTES = 9 * MIB;
const MEMBER_LINES = 4_000;
const MEMBER_BYTES = 512 * 1024;
const ARCHIVES = 3;

function wordsFrom(random: Random): readonly string[] {
  const letter = (): string => String.fromCharCode(97 + Math.floor(random() * 26));
  return Array.from({ length: WORDS }, () => Array.from({ length: 2 + Math.floor(random() * 9) }, letter).join(''));
}

function lineOf(words: readonly string[], random: Random): string {
  return Array.from({ length: LINE_WORDS }, () => words[Math.floor(random() * WORDS)] ?? '').join(' ');
}

/** What a page draws: lines of text, and curves beside them. */
function pageOf(words: readonly string[], random: Random): Buffer {
  const lines = Array.from({ length: PAGE_LINES }, () => `(${lineOf(words, random)}) Tj T*`);
  const number = (): string => (random() * 800).toFixed(2);
  const curves = Array.from({ length: CURVES }, () => {
    const points = Array.from({ length: 6 }, number).join(' ');
    return `${number()} ${number()} m ${points} c S`;
  });
  return Buffer.from(`BT /F1 8 Tf 10 TL 40 800 Td\n${lines.join('\n')}\nET\n${curves.join('\n')}\n`);
}

/** A document with a stream for each page, as printing programs make them (PDF 1.7, ISO 32000-1). */
function documentOf(bytes: number, random: Random): Buffer {
  const words = wordsFrom(random);
  const parts: Buffer[] = [Buffer.from('%PDF-1.7\n%\xe2\xe3\xcf\xd3\n', 'latin1')];
  const offsets: number[] = [];
  let size = parts[0]?.length ?? 0;
  const add = (number: number, ...body: readonly (string | Buffer)[]): void => {
    offsets[number] = size;
    const text = [`${number} 0 obj\n`, ...body, '\nendobj\n'];
    for (const part of text.map((one) => (typeof one === 'string' ? Buffer.from(one) : one))) {
      parts.push(part);
      size += part.length;
    }
  };
  const kids: number[] = [];
  let next = 4;
  while (size < bytes) {
    const stream = deflateSync(pageOf(words, random));
    const [contents, page] = [next, next + 1];
    next += 2;
    add(contents, `<</Length ${stream.length}/Filter/FlateDecode>>stream\n`, stream, '\nendstream');
    add(page, `<</Type/Page/Parent 2 0 R/Resources<</Font<</F1 3 0 R>>>>/Contents ${contents} 0 R>>`);
    kids.push(page);
  }
  add(1, '<</Type/Catalog/Pages 2 0 R>>');
  const list = kids.map((kid) => `${kid} 0 R`).join(' ');
  add(2, `<</Type/Pages/Count ${kids.length}/MediaBox[0 0 595 842]/Kids[${list}]>>`);
  add(3, '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>');
  const rows = Array.from(
    { length: next - 1 },
    (_, at) => `${String(offsets[at + 1] ?? 0).padStart(10, '0')} 00000 n \n`,
  );
  const table = `xref\n0 ${next}\n0000000000 65535 f \n${rows.join('')}`;
  parts.push(Buffer.from(`${table}trailer\n<</Size ${next}/Root 1 0 R>>\nstartxref\n${size}\n%%EOF\n`));
  return Buffer.concat(parts);
}

/** Members of text and of bytes that don't compress, as backups have them. */
function archiveOf(bytes: number, random: Random): Buffer {
  const words = wordsFrom(random);
  const members: { name: string; content: Buffer }[] = [];
  for (let size = 0, serial = 0; size < bytes; serial += 1) {
    const content =
      serial % 2 === 0
        ? Buffer.from(Array.from({ length: MEMBER_LINES }, () => lineOf(words, random)).join('\n'))
        : Buffer.from(Array.from({ length: MEMBER_BYTES }, () => Math.floor(random() * 256)));
    members.push({ name: `file-${serial}.${serial % 2 === 0 ? 'txt' : 'bin'}`, content });
    size += serial % 2 === 0 ? Math.floor(content.length / 2) : content.length;
  }
  return zip(members);
}

export type LargeKind = 'pdf' | 'zip';

export interface LargeFiles extends FileSet {
  readonly paths: readonly string[];
}

/** Writes them into the folder; `list` is for the load generator. */
export async function makeLargeFiles(kind: LargeKind, folder: string): Promise<LargeFiles> {
  const contents =
    kind === 'pdf'
      ? DOCUMENT_BYTES.map((bytes, index) => documentOf(bytes, generator(index + 1)))
      : Array.from({ length: ARCHIVES }, (_, index) => archiveOf(ARCHIVE_BYTES, generator(100 + index)));
  const paths = contents.map((_, index) => join(folder, `large-${index}.${kind}`));
  for (const [index, path] of paths.entries()) await writeFile(path, contents[index] ?? '');
  const listPath = join(folder, `large-${kind}.list`);
  await writeFile(listPath, `${paths.join('\n')}\n`);
  const all = Buffer.concat(contents);
  return {
    scenario: kind,
    unique: false,
    listPath,
    paths,
    count: paths.length,
    totalBytes: all.length,
    sha256: createHash('sha256').update(all).digest('hex'),
    leftOut: 0,
  };
}
