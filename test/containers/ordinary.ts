// Archives and documents that nobody has tampered with: those that lie on this machine, and folders packed by the tools of each format.
import { type Dirent, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { mail } from '../fixtures/archives.js';
import type { Container } from './containers.js';
import { archived, type Compressor, compressors, type File, sevenZip, zipOf } from './packers.js';
import { randomFrom } from './random.js';

const root = new URL('../../../', import.meta.url).pathname;
const SIZE_MAX = 2 << 20;
const PLACES = [
  '/usr/share',
  '/usr/lib',
  '/usr/bin',
  '/var/cache/apt/archives',
  '/var/lib',
  join(root, 'node_modules'),
];
const KINDS =
  /\.(gz|tgz|bz2|xz|zst|lz4|lzma|zip|jar|whl|egg|deb|tar|7z|docx?|xlsx?|pptx?|odt|ods|pdf|epub|apk|crx|xpi|rpm|cab|iso|cpio|woff2?|ttf|png|jpe?g|gif|svgz|wasm|node|exe|dll|so|a|pyc|mo|db|dat)$/;

/** Folders of packages and packages: their own tests bring archives that are damaged. One has the test file in its source. */
const DAMAGED_ON_PURPOSE = ['clamav-testfiles', 'testdata'];
const WITH_DAMAGED_FILES = /^(r-cran-zip|python3-pyclamd)_/;

function* filesBelow(folder: string): Generator<string> {
  let entries: Dirent[];
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch {
    // Not for this user.
    entries = [];
  }
  for (const entry of entries
    .filter(({ name }) => !DAMAGED_ON_PURPOSE.includes(name) && !WITH_DAMAGED_FILES.test(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else if (entry.isFile()) yield path;
  }
}

const isOfSize = (path: string, from: number): boolean => {
  const { size } = statSync(path);
  return size >= from && size <= SIZE_MAX;
};

/** So many, from all over the machine. */
function* found(count: number): Generator<Container> {
  const paths = PLACES.flatMap((place) => [...filesBelow(place)]).filter(
    (path) => KINDS.test(path) && isOfSize(path, 20),
  );
  const byKind = new Map<string, string[]>();
  for (const path of paths) {
    const kind = path.slice(path.lastIndexOf('.') + 1);
    const same = byKind.get(kind) ?? [];
    byKind.set(kind, same);
    same.push(path);
  }
  const random = randomFrom(1);
  const kinds = [...byKind.values()];
  for (let left = count; left > 0 && kinds.some((same) => same.length > 0); ) {
    for (const same of kinds) {
      const [path] = same.length === 0 || left === 0 ? [] : same.splice(random.below(same.length), 1);
      if (path === undefined) continue;
      left -= 1;
      yield { what: path, bytes: readFileSync(path) };
    }
  }
}

const TYPES = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>';

/** As a word processor packs them. */
function document(files: readonly File[]): Buffer {
  const parts = [{ name: '[Content_Types].xml', content: Buffer.from(TYPES) }, ...files];
  return zipOf(parts.map((part) => ({ ...part, hasDescriptor: true })));
}

function openDocument(files: readonly File[]): Buffer {
  const mimetype = { name: 'mimetype', content: Buffer.from('application/vnd.oasis.opendocument.text'), method: 0 };
  return zipOf([mimetype, ...files.map((file) => ({ ...file, name: `Pictures/${file.name}` }))]);
}

const byTar = (files: readonly File[], ...options: string[]): Buffer =>
  archived((names, archive) => ['tar', [...options, '-cf', archive, ...names]], files);
const packages = ['gz', 'xz', 'zst'] as const;

const packings: Record<string, (files: readonly File[], pick: number) => Buffer> = {
  zip: (files) => archived((names, archive) => ['zip', ['-q', archive, ...names]], files),
  'zip, streamed': (files) =>
    archived((names, archive) => ['sh', ['-c', `zip -q - ${names.join(' ')} | cat > ${archive}`]], files),
  'zip by Python': (files) =>
    archived((names, archive) => ['/usr/bin/python3', ['-m', 'zipfile', '-c', archive, ...names]], files),
  'zip by 7z': sevenZip('-tzip'),
  'zip with a comment': (files) => zipOf(files, { comment: Buffer.from('made by nobody') }),
  'zip64 by Python': (files) => zipOf(files.map((file) => ({ ...file, is64: true }))),
  docx: document,
  odt: openDocument,
  '7z': sevenZip('-t7z'),
  tar: (files) => byTar(files),
  'tar of GNU': (files) => byTar(files, '--format=gnu'),
  'tar of POSIX': (files) => byTar(files, '--format=posix'),
  'tar of v7': (files) => byTar(files, '--format=v7'),
  ...Object.fromEntries(
    (Object.keys(compressors) as Compressor[]).map((kind) => [
      `tar.${kind}`,
      (files: readonly File[]) => compressors[kind](byTar(files)),
    ]),
  ),
  'tar.bz2 of several streams': (files) => {
    const bytes = byTar(files);
    const half = bytes.length >> 1;
    return Buffer.concat([compressors.bz2(bytes.subarray(0, half)), compressors.bz2(bytes.subarray(half))]);
  },
  deb: (files, pick) => {
    const kind = packages[pick % packages.length] ?? 'gz';
    const members = [
      { name: 'debian-binary', content: Buffer.from('2.0\n') },
      { name: `control.tar.${kind}`, content: compressors[kind](byTar(files.slice(0, 1))) },
      { name: `data.tar.${kind}`, content: compressors[kind](byTar(files)) },
    ];
    return archived((names, archive) => ['ar', ['rcD', archive, ...names]], members);
  },
  cpio: (files) => archived((_, archive) => ['cpio', ['-o', '--quiet', '-H', 'newc', '-O', archive]], files),
  iso: (files) => archived((names, archive) => ['genisoimage', ['-quiet', '-J', '-R', '-o', archive, ...names]], files),
  mail: (files, pick) => mail(zipOf(files.slice(0, 1 + (pick % 3)))),
};

/** Packed from folders of the packages that the project has. */
function* packed(count: number): Generator<Container> {
  const random = randomFrom(2);
  const sources = [...filesBelow(join(root, 'node_modules'))].filter((path) => isOfSize(path, 1));
  const kinds = Object.keys(packings);
  for (let index = 0; index < count; index += 1) {
    const files = Array.from({ length: 1 + random.below(6) }, (_, number) => {
      const path = random.pick(sources);
      return {
        name: `${number}-${path.slice(path.lastIndexOf('/') + 1).replace(/[^\w.]/g, '_')}`,
        content: readFileSync(path),
      };
    });
    const kind = kinds[index % kinds.length] ?? 'zip';
    const bytes = packings[kind]?.(files, index);
    if (bytes === undefined) throw new Error(`Nothing packs ${kind}`);
    yield { what: `${kind} of ${files.map(({ name }) => name).join(' ')}`, bytes };
  }
}

export function* ordinary(count: number): Generator<Container> {
  const half = Math.ceil(count / 2);
  yield* packed(half);
  yield* found(count - half);
}
