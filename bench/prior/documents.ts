// Which files of unpacked packages are documents: a fixed choice, some of each package, no two alike.
import { createHash } from 'node:crypto';
import { open, readdir, readFile, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';

/** What a file is, by how it begins and what it is called. */
export const kinds = [
  'windows',
  'elf',
  'pdf',
  'ole2',
  'office',
  'archive',
  'jpeg',
  'picture',
  'mail',
  'html',
  'text',
  'other',
] as const;
export type Kind = (typeof kinds)[number];

export interface Document {
  readonly package: string;
  readonly path: string;
  readonly kind: Kind;
  /** Of its path in the package: an order that is the same everywhere, and of no meaning. */
  readonly rank: string;
}

const BYTES_MIN = 32;
/** The public route takes no larger ones. */
const DOCUMENT_BYTES_MAX = 10 * 1024 * 1024;
const HEAD_BYTES = 1024;
const OFFICE = new Set('.docx .xlsx .pptx .docm .xlsm .dotx .odt .ods .odp .ott .otp'.split(' '));
const ARCHIVES = new Set('.zip .jar .whl .deb .tgz .gz .xz .bz2 .tar .7z .nupkg'.split(' '));
const TEXTS = new Set('.txt .csv .md .rtf .xml .json .css .js .svg .py .sh .c .h'.split(' '));

/** Null: it can't be read, or is no file. */
async function kindOf(path: string): Promise<Kind | null> {
  const file = await open(path).catch(() => null);
  if (file === null) return null;
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return kindOfHead(buffer.toString('latin1', 0, bytesRead), extname(path).toLowerCase());
  } finally {
    await file.close();
  }
}

function kindOfHead(head: string, extension: string): Kind {
  if (head.startsWith('MZ') && head.includes('PE\0\0')) return 'windows';
  if (head.startsWith('\x7fELF')) return 'elf';
  if (head.startsWith('%PDF')) return 'pdf';
  if (head.startsWith('\xd0\xcf\x11\xe0')) return 'ole2';
  if (head.startsWith('PK')) return OFFICE.has(extension) ? 'office' : 'archive';
  if (head.startsWith('\xff\xd8\xff')) return 'jpeg';
  if (/^(\x89PNG|GIF8|II\*\0|MM\0\*)/.test(head)) return 'picture';
  if (/^(From |Return-Path:|Received:|Delivered-To:)/.test(head) || extension === '.eml') return 'mail';
  if (extension === '.html' || extension === '.htm') return 'html';
  if (ARCHIVES.has(extension)) return 'archive';
  return TEXTS.has(extension) ? 'text' : 'other';
}

export interface Share {
  /** Of one package at most, by kind. */
  readonly ofKind: (kind: Kind) => number;
  /** By the name of its folder; all are when it isn't given. */
  readonly isChosen?: (name: string) => boolean;
}

/** The same half with the same seed. */
export function isOfHalf(name: string, seed: string): boolean {
  return ((createHash('sha256').update(`${seed} ${name}`).digest()[0] ?? 0) & 1) === 0;
}

/** In the order of packages and paths. Which ones are left out says the hash of their path, the same everywhere. */
export async function chooseDocuments(
  folder: string,
  { ofKind, isChosen = () => true }: Share,
): Promise<readonly Document[]> {
  const digests = new Set<string>();
  const documents: Document[] = [];
  for (const name of (await readdir(folder)).filter(isChosen).sort()) {
    const root = join(folder, name);
    const found = (await readdir(root, { recursive: true, withFileTypes: true }).catch(() => []))
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => !/[\t\n]/.test(path));
    const ranked = found.map((path) => ({ path, rank: rankOf(path.slice(root.length)) }));
    ranked.sort((a, b) => (a.rank < b.rank ? -1 : 1));
    const counts = new Map<Kind, number>();
    const chosen: Document[] = [];
    for (const { path, rank } of ranked) {
      const { size } = await stat(path);
      const kind = size < BYTES_MIN || size > DOCUMENT_BYTES_MAX ? null : await kindOf(path);
      if (kind === null || (counts.get(kind) ?? 0) >= ofKind(kind)) continue;
      const digest = createHash('sha256')
        .update(await readFile(path))
        .digest('base64');
      if (digests.has(digest)) continue;
      digests.add(digest);
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      chosen.push({ package: name, path, kind, rank });
    }
    documents.push(...chosen.sort((a, b) => (a.path < b.path ? -1 : 1)));
  }
  return documents;
}

function rankOf(path: string): string {
  return createHash('sha256').update(path).digest('hex');
}
