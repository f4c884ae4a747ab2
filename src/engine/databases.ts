// The signature files of a folder, and what they say of themselves: their version and when they were built; and the samples on which a new engine is tried before it serves.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, readFile, stat } from 'node:fs/promises';
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
const OFFICIAL = /^(main|daily|bytecode)\./;
/** A comment of a database or of YARA rules, and enough bytes for it. */
const BUILT_LINE = /^(?:#|\/\/) built: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\r?\n/;
const FIRST_LINE_BYTES = 64;
/** Enough lines to say how long those of a file are. */
const SAMPLE_BYTES = 64 * 1024;
/** Of files that may have hundreds of megabytes. */
const CHUNK_BYTES = 1024 * 1024;

export interface DatabaseFile {
  readonly path: string;
  /** What the header of a container says (`.cvd`, `.cld`, `.cud`); null: other files have none. */
  readonly container: { readonly version: number; readonly signatureCount: number } | null;
  /** Seconds since the epoch: a container's build time, or what another file says in its first line; null: it says nothing. */
  readonly builtAt: number | null;
}

export type DatabaseFacts = Awaited<ReturnType<typeof describeDatabases>>;

/** The newest build time of an official daily database, in seconds since the epoch; null where there is none. */
export function dailyBuiltAt(files: readonly DatabaseFile[]): number | null {
  return newest(files.filter(({ path, container }) => container !== null && baseName(path).startsWith('daily.')));
}

function newest(files: readonly DatabaseFile[]): number | null {
  const times = files.flatMap(({ builtAt }) => (builtAt === null ? [] : [builtAt]));
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
export const isDatabase = (name: string): boolean => DATABASE_EXTENSIONS.has(extensionOf(name));

const extensionOf = (name: string): string => extname(name).toLowerCase();

/** Rejects when the folder can't be read, and where something else has the name of a database: nobody ever comes to the end of a pipe. */
export async function databaseFiles(directory: string): Promise<string[]> {
  const names = await readdir(directory);
  const paths = names
    .filter(isDatabase)
    .sort()
    .map((name) => join(directory, name));
  for (const path of paths) {
    const isFile = await stat(path).then(
      (facts) => facts.isFile(),
      // A link that leads nowhere, or gone in this moment: who reads it finds out.
      () => true,
    );
    if (!isFile) throw new Error(`${path} is not a file`);
  }
  return paths;
}

/** Whether it holds YARA rules; libclamav takes those as well, as far as it knows their language. */
export const isRuleFile = (path: string): boolean => RULE_EXTENSIONS.has(extensionOf(path));

/** Lines that are neither empty nor a comment: in most forms of database, one signature each. */
export async function countLines(path: string): Promise<number> {
  let lines = 0;
  for await (const line of createInterface({ input: createReadStream(path) }))
    if (line !== '' && !line.startsWith('#')) lines += 1;
  return lines;
}

/** About as many signatures as a load of the files meets, at least 1. */
export async function expectedSignatures(paths: readonly string[]): Promise<number> {
  let count = 0;
  for (const path of paths) {
    const container = await readContainerHeader(path);
    count += container === null ? await expectedLines(path) : container.signatureCount;
  }
  return Math.max(1, Math.round(count));
}

/** As if all lines were as long as the first ones. */
async function expectedLines(path: string): Promise<number> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const { buffer, bytesRead } = await file.read(Buffer.alloc(SAMPLE_BYTES), 0, SAMPLE_BYTES, 0);
    const lines = buffer.toString('latin1', 0, bytesRead).split('\n').length - 1;
    return bytesRead === 0 ? 0 : (Math.max(1, lines) * size) / bytesRead;
  } finally {
    await file.close();
  }
}

/** Reads every file that is not a container once; changes whenever a file's name or content does. */
export async function describeDatabases(paths: readonly string[]) {
  const digest = createHash('sha256');
  const versions: { name: string; version: number }[] = [];
  const files: DatabaseFile[] = [];
  let loose = 0;
  for (const path of paths) {
    const container = await readContainerHeader(path);
    const name = baseName(path);
    const builtAt = container === null ? await timeInside(path) : container.builtAt;
    const facts = container === null ? null : { version: container.version, signatureCount: container.signatureCount };
    files.push({ path, container: facts, builtAt });
    if (container !== null && /^(main|daily)\./.test(name)) {
      versions.push({ name: name.slice(0, name.indexOf('.')), version: container.version });
      continue;
    }
    digest.update(`${name}\0`);
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) digest.update(chunk);
    loose += 1;
  }
  const official = versions.sort((a, b) => b.version - a.version)[0];
  const parts = [
    ...(official === undefined ? [] : [`${official.name}:${official.version}`]),
    ...(loose === 0 ? [] : [digest.digest('hex').slice(0, 8)]),
  ];
  const officials = files.filter(({ path, container }) => container !== null && OFFICIAL.test(baseName(path)));
  return {
    /** `daily:27000` for official databases, `+` the first 8 hex digits of a SHA-256 over all other files. */
    signatureVersion: parts.join('+'),
    /** Seconds since the epoch: of the newest official database, without one of the newest file that says when it was built; null: none does. */
    signaturesBuiltAt: newest(officials) ?? newest(files),
    files,
  };
}

/** The time that a file other than a container has in its first line (`# built: 2026-11-20T08:00:00`, UTC); its time on disk says when it was copied. */
async function timeInside(path: string): Promise<number | null> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(FIRST_LINE_BYTES), 0, FIRST_LINE_BYTES, 0);
    const time = BUILT_LINE.exec(buffer.toString('latin1', 0, bytesRead))?.[1];
    const atMs = time === undefined ? Number.NaN : Date.parse(`${time}Z`);
    return Number.isNaN(atMs) ? null : atMs / 1000;
  } finally {
    await file.close();
  }
}

/** SHA-256 over the names and all bytes of the files, in hex. Two machines with the same one have the same databases. */
export async function contentDigest(paths: readonly string[]): Promise<string> {
  const digest = createHash('sha256');
  for (const path of paths) {
    const { size } = await stat(path);
    digest.update(`${baseName(path)}\0${size}\0`);
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) digest.update(chunk);
  }
  return digest.digest('hex');
}

const baseName = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** Null: it is no container, or none that can be read. */
export async function readContainerHeader(path: string) {
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

export interface SelfTest {
  /** Empty where no loaded file has a signature for it. */
  readonly infectedSample: Uint8Array;
  readonly cleanSample: Uint8Array;
}

const OWN_DATABASE = /\/sluice\.ldb$/;
const OWN_SIGNATURE = 'Sluice.Test.EICAR;';
/** The EICAR test file, in parts: a file of the project that had it whole would be found by scanners. */
const TEST_FILE = ['X5O!P%@AP[4\\PZX54(P^)', '7CC)7}$EICAR-STANDARD-', 'ANTIVIRUS-TEST-', 'FILE!$H+H*'];
const CLEAN_TEXT = 'Sluice self-test: a few harmless words that no signature may match.\n';

export const testFile = (): Uint8Array => Buffer.from(TEST_FILE.join(''), 'latin1');

export const cleanSample = (): Uint8Array => Buffer.from(CLEAN_TEXT);

export async function selfTestFor(databasePaths: readonly string[]): Promise<SelfTest> {
  for (const path of databasePaths.filter((candidate) => OWN_DATABASE.test(candidate))) {
    if ((await readFile(path, 'latin1')).includes(OWN_SIGNATURE)) {
      return { infectedSample: testFile(), cleanSample: cleanSample() };
    }
  }
  return { infectedSample: new Uint8Array(), cleanSample: cleanSample() };
}
