// Compressors and archivers, as the tools themselves write them.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync, gzipSync } from 'node:zlib';
import { crc32 } from '../fixtures/archives.js';

export interface File {
  readonly name: string;
  readonly content: Buffer;
}

export function piped(command: string, args: readonly string[], input: Buffer): Buffer {
  const { status, stdout, stderr } = spawnSync(command, args, { input, maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`);
  return stdout;
}

export const compressors = {
  gz: (content: Buffer) => gzipSync(content),
  bz2: (content: Buffer) => piped('bzip2', ['-c'], content),
  xz: (content: Buffer) => piped('xz', ['-c'], content),
  lzma: (content: Buffer) => piped('xz', ['--format=lzma', '-c'], content),
  zst: (content: Buffer) => piped('zstd', ['-qc'], content),
  lz4: (content: Buffer) => piped('lz4', ['-qc'], content),
  lz4Legacy: (content: Buffer) => piped('lz4', ['-qcl'], content),
  lz: (content: Buffer) => piped('lzip', ['-c'], content),
} as const;
export type Compressor = keyof typeof compressors;

/** By one of the formats that have a program which takes files from a folder. */
export function archived(
  command: (files: readonly string[], archive: string) => [string, string[]],
  files: readonly File[],
): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pack-'));
  try {
    for (const { name, content } of files) writeFileSync(join(folder, name), content);
    const archive = join(folder, 'archive.bin');
    const names = files.map(({ name }) => name);
    const [program, args] = command(names, archive);
    const { status, stderr, stdout } = spawnSync(program, args, { cwd: folder, input: `${names.join('\n')}\n` });
    if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stdout}${stderr}`);
    return readFileSync(archive);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A package: a lead, a header with signatures and one with what it is, both as short as can be, and the payload. */
export function rpm(payload: Buffer): Buffer {
  const lead = Buffer.alloc(96);
  lead.write('edabeedb0300', 0, 'hex');
  lead.write('a-1-1', 10);
  lead.writeUInt16BE(1, 76);
  lead.writeUInt16BE(5, 78);
  const header = (name: string): Buffer => {
    const data = Buffer.from(`${name}\0`);
    const head = Buffer.alloc(32);
    head.write('8eade801', 0, 'hex');
    head.writeUInt32BE(1, 8);
    head.writeUInt32BE(data.length, 12);
    // One tag, the name, of the type of texts (6): one at offset 0.
    for (const [index, value] of [1000, 6, 0, 1].entries()) head.writeUInt32BE(value, 16 + 4 * index);
    return Buffer.concat([head, data]);
  };
  const signature = header('a');
  const padding = Buffer.alloc((8 - (signature.length % 8)) % 8);
  return Buffer.concat([lead, signature, padding, header('a'), payload]);
}

export const sevenZip =
  (...options: string[]) =>
  (files: readonly File[]): Buffer =>
    archived((names, archive) => ['7z', ['a', '-bd', ...options, archive, ...names]], files);

/** How a member of a zip is packed; its name for messages, its number (APPNOTE.TXT 4.4.5). */
export const methods: readonly {
  readonly number: number;
  readonly pack: (content: Buffer) => Buffer;
  readonly flags: number;
}[] = [
  { number: 0, pack: (content) => content, flags: 0 },
  { number: 8, pack: (content) => deflateRawSync(content), flags: 0 },
  { number: 12, pack: compressors.bz2, flags: 0 },
  { number: 14, pack: zipLzma, flags: 2 },
  { number: 93, pack: compressors.zst, flags: 0 },
  { number: 95, pack: compressors.xz, flags: 0 },
];

function zipLzma(content: Buffer): Buffer {
  const file = compressors.lzma(content);
  return Buffer.concat([Buffer.from([9, 20, 5, 0]), file.subarray(0, 5), file.subarray(13)]);
}

export interface ZipMember extends File {
  readonly method?: number;
  /** What the local header says instead. */
  readonly localMethod?: number;
  /** Sizes come behind the data. */
  readonly hasDescriptor?: boolean;
  /** The local header says sizes of nothing. */
  readonly localIsEmpty?: boolean;
  readonly is64?: boolean;
}

export interface ZipOptions {
  readonly prefix?: Buffer;
  /** Offsets count from here. */
  readonly base?: number;
  readonly comment?: Buffer;
  /** Members that have no place in the directory. */
  readonly unlisted?: number;
}

export function zipOf(
  members: readonly ZipMember[],
  { prefix, base = 0, comment = Buffer.alloc(0), unlisted = 0 }: ZipOptions = {},
): Buffer {
  const parts: Buffer[] = prefix === undefined ? [] : [prefix];
  const directory: Buffer[] = [];
  let offset = prefix?.length ?? 0;
  members.forEach((member, index) => {
    const {
      name,
      content,
      method = 8,
      localMethod = method,
      hasDescriptor = false,
      localIsEmpty = false,
      is64 = false,
    } = member;
    const packing = methods.find(({ number }) => number === method) ?? methods[0];
    const data = packing?.pack(content) ?? content;
    const flags = (packing?.flags ?? 0) | (hasDescriptor ? 8 : 0);
    const head = (of: number, isLocal: boolean): Buffer => {
      const common = Buffer.alloc(26);
      common.writeUInt16LE(is64 ? 45 : 20, 0);
      common.writeUInt16LE(flags, 2);
      common.writeUInt16LE(of, 4);
      common.writeUInt16LE(0x5000, 8);
      const isEmpty = isLocal && (hasDescriptor || localIsEmpty);
      if (!(isLocal && hasDescriptor)) common.writeUInt32LE(crc32(content), 10);
      common.writeUInt32LE(isEmpty ? 0 : is64 ? 0xffffffff : data.length, 14);
      common.writeUInt32LE(isEmpty ? 0 : is64 ? 0xffffffff : content.length, 18);
      common.writeUInt16LE(Buffer.byteLength(name), 22);
      common.writeUInt16LE(is64 ? 20 : 0, 24);
      return common;
    };
    const extra = Buffer.alloc(is64 ? 20 : 0);
    if (is64) {
      extra.writeUInt16LE(1, 0);
      extra.writeUInt16LE(16, 2);
      extra.writeBigUInt64LE(BigInt(content.length), 4);
      extra.writeBigUInt64LE(BigInt(data.length), 12);
    }
    const descriptor = Buffer.alloc(hasDescriptor ? 16 : 0);
    if (hasDescriptor) {
      descriptor.write('PK\x07\x08', 'latin1');
      descriptor.writeUInt32LE(crc32(content), 4);
      descriptor.writeUInt32LE(data.length, 8);
      descriptor.writeUInt32LE(content.length, 12);
    }
    const local = Buffer.concat([
      Buffer.from('PK\x03\x04'),
      head(localMethod, true),
      Buffer.from(name),
      extra,
      data,
      descriptor,
    ]);
    const place = Buffer.alloc(14);
    place.writeUInt32LE(offset - base, 10);
    const record = [Buffer.from('PK\x01\x02\x14\x00', 'latin1'), head(method, false), place, Buffer.from(name), extra];
    if (index >= unlisted) directory.push(Buffer.concat(record));
    parts.push(local);
    offset += local.length;
  });
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 0, 'latin1');
  end.writeUInt16LE(directory.length, 8);
  end.writeUInt16LE(directory.length, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(offset - base, 16);
  end.writeUInt16LE(comment.length, 20);
  return Buffer.concat([...parts, central, end, comment]);
}
