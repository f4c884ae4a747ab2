// Containers of every kind with the test file inside, whole and broken, in an order that a seed gives.
import { tar } from '../fixtures/archives.js';
import { eicar } from '../fixtures/samples.js';
import {
  archived,
  type Compressor,
  compressors,
  type File,
  methods,
  rpm,
  sevenZip,
  type ZipMember,
  zipOf,
} from './packers.js';
import { type Random, randomFrom } from './random.js';

export interface Container {
  /** How it was made. */
  readonly what: string;
  readonly bytes: Buffer;
}

type Archiver = (files: readonly File[], random: Random) => Container;

const WORDS = ['invoice', 'report', 'minutes', 'photo', 'backup', 'notes'];

function text(random: Random): Buffer {
  const words = Array.from({ length: 5 + random.below(400) }, () => `${random.pick(WORDS)} ${random.below(1000)}`);
  return Buffer.from(words.join('\n'));
}

function files(random: Random): File[] {
  const made = Array.from({ length: random.below(4) }, (_, index) => ({ name: `${index}.txt`, content: text(random) }));
  made.splice(random.below(made.length + 1), 0, { name: 'wanted.com', content: eicar() });
  return made;
}

const named = (what: string, bytes: Buffer): Container => ({ what, bytes });
const numberOf = (random: Random): number => random.pick(methods).number;

/** Zips as they should not be. */
const oddZips: Record<string, (files: readonly File[], random: Random) => Buffer> = {
  'two zips': (files, random) => {
    const other = zipOf([{ name: 'a.txt', content: text(random) }]);
    return random.chance(0.5) ? Buffer.concat([other, zipOf(files)]) : Buffer.concat([zipOf(files), other]);
  },
  'two zips, offsets mended': (files, random) =>
    zipOf(files, { prefix: zipOf([{ name: 'a.txt', content: text(random) }]) }),
  'behind other bytes': (files, random) => zipOf(files, { prefix: text(random) }),
  'behind other bytes, offsets from the first member': (files, random) => {
    const prefix = text(random);
    return zipOf(files, { prefix, base: prefix.length });
  },
  'behind a program': (files, random) => {
    const prefix = Buffer.concat([Buffer.from('MZ'), Buffer.alloc(2000 + random.below(3000), 'x')]);
    return zipOf(files, { prefix, base: random.chance(0.5) ? prefix.length : 0 });
  },
  'the local header says another method': (files, random) =>
    zipOf(
      files.map((file) => ({ ...file, method: random.pick([0, 8]), localMethod: random.pick([0, 8, 12, 14, 99]) })),
    ),
  'the directory says another method': (files) => zipOf(files.map((file) => ({ ...file, method: 8, localMethod: 0 }))),
  'the local header says empty': (files) => zipOf(files.map((file) => ({ ...file, localIsEmpty: true }))),
  'not in the directory': (files) => zipOf(files, { unlisted: files.length }),
  'a directory in the comment': (files, random) =>
    zipOf(files, { comment: zipOf([{ name: 'a.txt', content: text(random) }]) }),
  'the end of a directory in the comment': (files) =>
    zipOf(files, { comment: Buffer.concat([Buffer.from('PK\x05\x06'), Buffer.alloc(18)]) }),
  'bytes behind it': (files, random) => Buffer.concat([zipOf(files), text(random)]),
  zip64: (files) => zipOf(files.map((file) => ({ ...file, is64: true }))),
};

const archivers: Record<string, Archiver> = {
  zip: (files, random) => {
    const members = files.map(
      (file): ZipMember => ({ ...file, method: numberOf(random), hasDescriptor: random.chance(0.3) }),
    );
    return named(`zip of ${members.map(({ method }) => method).join(' ')}`, zipOf(members));
  },
  'odd zip': (files, random) => {
    const what = random.pick(Object.keys(oddZips));
    return named(`zip, ${what}`, oddZips[what]?.(files, random) ?? Buffer.alloc(0));
  },
  tar: (files) => named('tar', tar(files)),
  'two tars': (files, random) => {
    const other = tar([{ name: 'a.txt', content: text(random) }]);
    // Without the blocks at its end.
    const open = other.subarray(0, other.length - 1024);
    return random.chance(0.5)
      ? named('two tars, one after the other', Buffer.concat([other, tar(files)]))
      : named('two tars in one', Buffer.concat([open, tar(files)]));
  },
  cpio: (files, random) => {
    const format = random.pick(['newc', 'crc', 'odc', 'bin']);
    return named(
      `cpio ${format}`,
      archived((_, archive) => ['cpio', ['-o', '--quiet', '-H', format, '-O', archive]], files),
    );
  },
  rpm: (files, random) => {
    const kind = random.pick(['gz', 'xz', 'zst', 'bz2', 'lzma', 'none']);
    const cpio = archived((_, archive) => ['cpio', ['-o', '--quiet', '-H', 'newc', '-O', archive]], files);
    return named(`rpm ${kind}`, rpm(compressors[kind as Compressor]?.(cpio) ?? cpio));
  },
  ar: (files) =>
    named(
      'ar',
      archived((names, archive) => ['ar', ['rc', archive, ...names]], files),
    ),
  '7z': (files, random) => {
    const method = random.pick([
      'LZMA',
      'LZMA2',
      'PPMd',
      'BZip2',
      'Deflate',
      'Copy',
      'BCJ',
      'Delta',
      'BCJ2',
      'ARM',
      'SWAP4',
    ]);
    const solid = random.pick(['on', 'off']);
    const headers = random.pick(['on', 'off']);
    return named(
      `7z ${method}, solid ${solid}`,
      sevenZip('-t7z', `-m0=${method}`, `-ms=${solid}`, `-mhc=${headers}`)(files),
    );
  },
  'zip by 7z': (files, random) => {
    const method = random.pick(['Deflate', 'Deflate64', 'BZip2', 'LZMA', 'PPMd', 'Copy']);
    return named(`zip by 7z ${method}`, sevenZip('-tzip', `-mm=${method}`)(files));
  },
  'tar by 7z': (files) => named('tar by 7z', sevenZip('-ttar')(files)),
  wim: (files) => named('wim', sevenZip('-twim')(files)),
  iso: (files, random) => {
    const options = random.pick([['-R'], ['-J'], ['-J', '-R'], ['-udf']]);
    return named(
      `iso ${options.join(' ')}`,
      archived((names, archive) => ['genisoimage', ['-quiet', ...options, '-o', archive, ...names]], files),
    );
  },
  alone: (files) => named('the file', files.find(({ name }) => name === 'wanted.com')?.content ?? eicar()),
};

/** Streams as the tools of each format take them. */
function compressed(inner: Container, random: Random): Container {
  const kind = random.pick(Object.keys(compressors) as Compressor[]);
  const pack = compressors[kind];
  const { what, bytes } = inner;
  const at = random.below(bytes.length);
  const parts = [bytes.subarray(0, at), bytes.subarray(at)].map((part) => pack(Buffer.from(part)));
  const [first = Buffer.alloc(0), second = Buffer.alloc(0)] = parts;
  const skipped = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4]);
  const forms: Record<string, () => Buffer> = {
    'one stream': () => pack(bytes),
    'two streams': () => Buffer.concat([first, second]),
    'an empty stream first': () => Buffer.concat([pack(Buffer.alloc(0)), pack(bytes)]),
    'an empty stream last': () => Buffer.concat([pack(bytes), pack(Buffer.alloc(0))]),
    'zeros between streams': () => Buffer.concat([first, Buffer.alloc(4 * (1 + random.below(200))), second]),
    'zeros behind it': () => Buffer.concat([pack(bytes), Buffer.alloc(4 * (1 + random.below(200)))]),
    'bytes behind it': () => Buffer.concat([pack(bytes), text(random)]),
    'a frame to skip first': () =>
      kind === 'zst' || kind === 'lz4' ? Buffer.concat([skipped, pack(bytes)]) : pack(bytes),
  };
  const form = random.chance(0.5) ? 'one stream' : random.pick(Object.keys(forms));
  return named(`${kind} (${form}) of ${what}`, forms[form]?.() ?? pack(bytes));
}

function broken({ what, bytes }: Container, random: Random): Container {
  const at = random.below(bytes.length);
  if (random.chance(0.5)) return named(`${what}, cut at ${at}`, bytes.subarray(0, at));
  const damaged = Buffer.from(bytes);
  damaged[at] = (damaged[at] ?? 0) ^ (1 + random.below(255));
  return named(`${what}, damaged at ${at}`, damaged);
}

/** Breaks are at any layer. */
export function* containers(seed: number, count: number): Generator<Container> {
  const random = randomFrom(seed);
  for (let index = 0; index < count; index += 1) {
    const make = archivers[random.pick(Object.keys(archivers))];
    if (make === undefined) throw new Error('There are no archivers');
    let made = make(files(random), random);
    const layers = made.what === 'the file' ? 1 + random.below(2) : random.below(3);
    for (let layer = 0; layer < layers; layer += 1) {
      if (random.chance(0.12)) made = broken(made, random);
      if (made.bytes.length === 0) break;
      if (random.chance(0.75)) made = compressed(made, random);
      else {
        const inner = { name: 'inner.bin', content: made.bytes };
        made = random.chance(0.6)
          ? named(`zip of ${made.what}`, zipOf([{ ...inner, method: numberOf(random) }]))
          : named(`tar of ${made.what}`, tar([inner]));
      }
    }
    if (random.chance(0.35)) made = broken(made, random);
    if (made.bytes.length > 0) yield made;
  }
}
