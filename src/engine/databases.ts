// The signature files of a folder, and what they say of themselves: their version and when they were built.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';

/** Files that libclamav reads signatures and settings from, in upper or lower case. It passes over all others. */
const DATABASE_EXTENSIONS = new Set(
  (
    'cvd cld cud ' +
    'db hdb hdu hsb hsu mdb mdu msb msu imp ndb ndu ldb ldu idb cdb crb cbc sdb zmd rmd pdb gdb wdb ' +
    'fp sfp ftm ign ign2 cat cfg ioc yar yara pwdb'
  )
    .split(' ')
    .map((extension) => `.${extension}`),
);
const RULE_EXTENSIONS = new Set(['.yar', '.yara']);
const CONTAINER_EXTENSIONS = new Set(['.cvd', '.cld', '.cud']);
/** A container begins with a header of this length, fields divided by colons. */
const CONTAINER_HEADER_BYTES = 512;
const VERSION_FIELD = 2;
const COUNT_FIELD = 3;
const BUILD_TIME_FIELD = 8;

/** One file, and what it says of itself. */
export interface DatabaseFile {
  readonly path: string;
  readonly sizeBytes: number;
  /** What the header of a container says (`.cvd`, `.cld`, `.cud`); null: other files have none. */
  readonly container: { readonly version: number; readonly signatureCount: number } | null;
  /** Seconds since the epoch: a container's build time, or another file's modification time. */
  readonly builtAt: number;
}

export interface DatabaseFacts {
  /** `daily:27000` for official databases, `+` the first 8 hex digits of a SHA-256 over all other files. */
  readonly signatureVersion: string;
  /** Seconds since the epoch: the newest build time of a container, or modification time of another file. */
  readonly signaturesBuiltAt: number;
  readonly files: readonly DatabaseFile[];
}

/** The newest build time of an official daily database, in seconds since the epoch; null where there is none. */
export function dailyBuiltAt(files: readonly DatabaseFile[]): number | null {
  const times = files
    .filter(({ path, container }) => container !== null && baseName(path).startsWith('daily.'))
    .map(({ builtAt }) => builtAt);
  return times.length === 0 ? null : Math.max(...times);
}

/** Text that changes whenever a database is added, removed, replaced or written to. Rejects when a folder can't be read. */
export async function fingerprint(directories: readonly string[]): Promise<string> {
  const lines: string[] = [];
  for (const directory of directories) {
    for (const path of await databaseFiles(directory)) {
      const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
      lines.push(`${path} ${ino} ${size} ${mtimeNs} ${ctimeNs}`);
    }
  }
  return lines.join('\n');
}

/** Whether libclamav would read it, by its name. */
export function isDatabase(name: string): boolean {
  return DATABASE_EXTENSIONS.has(extensionOf(name));
}

function extensionOf(name: string): string {
  return extname(name).toLowerCase();
}

export async function databaseFiles(directory: string): Promise<string[]> {
  const names = await readdir(directory);
  return names
    .filter(isDatabase)
    .sort()
    .map((name) => join(directory, name));
}

/** Whether it holds YARA rules; libclamav takes those as well, as far as it knows their language. */
export function isRuleFile(path: string): boolean {
  return RULE_EXTENSIONS.has(extensionOf(path));
}

/** Lines that are not empty: in most forms of database, one signature each. */
export async function countLines(path: string): Promise<number> {
  let lines = 0;
  for await (const line of createInterface({ input: createReadStream(path) })) if (line !== '') lines += 1;
  return lines;
}

/** Reads every file that is not a container once; changes whenever a file's name or content does. */
export async function describeDatabases(paths: readonly string[]): Promise<DatabaseFacts> {
  const digest = createHash('sha256');
  const versions: { name: string; version: number }[] = [];
  const files: DatabaseFile[] = [];
  let loose = 0;
  for (const path of paths) {
    const container = await readContainerHeader(path);
    const name = baseName(path);
    const { size: sizeBytes, mtimeMs } = await stat(path);
    const builtAt = container?.builtAt ?? Math.floor(mtimeMs / 1000);
    const facts = container === null ? null : { version: container.version, signatureCount: container.signatureCount };
    files.push({ path, sizeBytes, container: facts, builtAt });
    if (container !== null && /^(main|daily)\./.test(name)) {
      versions.push({ name: name.slice(0, name.indexOf('.')), version: container.version });
      continue;
    }
    digest.update(`${name}\0`);
    for await (const chunk of createReadStream(path)) digest.update(chunk);
    loose += 1;
  }
  const official = versions.sort((a, b) => b.version - a.version)[0];
  const parts = [
    ...(official === undefined ? [] : [`${official.name}:${official.version}`]),
    ...(loose === 0 ? [] : [digest.digest('hex').slice(0, 8)]),
  ];
  const signaturesBuiltAt = Math.max(0, ...files.map(({ builtAt }) => builtAt));
  return { signatureVersion: parts.join('+'), signaturesBuiltAt, files };
}

/** SHA-256 over the names and all bytes of the files, in hex. Two machines with the same one have the same databases. */
export async function contentDigest(paths: readonly string[]): Promise<string> {
  const digest = createHash('sha256');
  for (const path of paths) {
    const { size } = await stat(path);
    digest.update(`${baseName(path)}\0${size}\0`);
    for await (const chunk of createReadStream(path)) digest.update(chunk);
  }
  return digest.digest('hex');
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

export interface ContainerHeader {
  readonly version: number;
  readonly signatureCount: number;
  readonly builtAt: number;
}

/** Null: it is no container, or none that can be read. */
export async function readContainerHeader(path: string): Promise<ContainerHeader | null> {
  if (!CONTAINER_EXTENSIONS.has(extensionOf(path))) return null;
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(CONTAINER_HEADER_BYTES), 0, CONTAINER_HEADER_BYTES, 0);
    const fields = buffer.toString('latin1', 0, bytesRead).split(':');
    const version = Number.parseInt(fields[VERSION_FIELD] ?? '', 10);
    const signatureCount = Number.parseInt(fields[COUNT_FIELD] ?? '', 10);
    const builtAt = Number.parseInt(fields[BUILD_TIME_FIELD] ?? '', 10);
    // A header we can't read is a damaged file: libclamav will refuse it and say why.
    const isRead = fields[0] === 'ClamAV-VDB' && version > 0 && signatureCount >= 0 && builtAt > 0;
    return isRead ? { version, signatureCount, builtAt } : null;
  } finally {
    await file.close();
  }
}
