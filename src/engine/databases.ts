// The signature files of a folder, read for what they say of themselves: which version they are and when they were built.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';

/** Files libclamav takes signatures from; it passes over all others. */
const DATABASE_EXTENSIONS = new Set(
  (
    'cvd cld cud ' +
    'db hdb hdu hsb hsu mdb mdu msb msu imp ndb ndu ldb ldu idb cdb crb cbc sdb zmd rmd pdb gdb wdb ' +
    'fp sfp ftm ign ign2 cat ioc yar yara pwdb'
  )
    .split(' ')
    .map((extension) => `.${extension}`),
);
const CONTAINER_EXTENSIONS = new Set(['.cvd', '.cld', '.cud']);
/** A container begins with a header of this length, fields divided by colons. */
const CONTAINER_HEADER_BYTES = 512;
const VERSION_FIELD = 2;
const BUILD_TIME_FIELD = 8;

export interface DatabaseFacts {
  /** `daily:27000` for official databases, `+` the first 8 hex digits of a SHA-256 over all other files. */
  readonly signatureVersion: string;
  /** Seconds since the epoch: the newest build time of a container, or modification time of another file. */
  readonly signaturesBuiltAt: number;
}

export async function databaseFiles(directory: string): Promise<string[]> {
  const names = await readdir(directory);
  return names
    .filter((name) => DATABASE_EXTENSIONS.has(extname(name)))
    .sort()
    .map((name) => join(directory, name));
}

/** Reads every file that is not a container once; changes whenever a file's name or content does. */
export async function describeDatabases(paths: readonly string[]): Promise<DatabaseFacts> {
  const digest = createHash('sha256');
  const versions: { name: string; version: number }[] = [];
  const times: number[] = [];
  let loose = 0;
  for (const path of paths) {
    const container = await readContainerHeader(path);
    const name = baseName(path);
    if (container !== null) times.push(container.builtAt);
    if (container !== null && /^(main|daily)\./.test(name)) {
      versions.push({ name: name.slice(0, name.indexOf('.')), version: container.version });
      continue;
    }
    if (container === null) times.push(Math.floor((await stat(path)).mtimeMs / 1000));
    digest.update(`${name}\0`);
    for await (const chunk of createReadStream(path)) digest.update(chunk);
    loose += 1;
  }
  const official = versions.sort((a, b) => b.version - a.version)[0];
  const parts = [
    ...(official === undefined ? [] : [`${official.name}:${official.version}`]),
    ...(loose === 0 ? [] : [digest.digest('hex').slice(0, 8)]),
  ];
  return { signatureVersion: parts.join('+'), signaturesBuiltAt: Math.max(0, ...times) };
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

async function readContainerHeader(path: string): Promise<{ version: number; builtAt: number } | null> {
  if (!CONTAINER_EXTENSIONS.has(extname(path))) return null;
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(CONTAINER_HEADER_BYTES), 0, CONTAINER_HEADER_BYTES, 0);
    const fields = buffer.toString('latin1', 0, bytesRead).split(':');
    const version = Number.parseInt(fields[VERSION_FIELD] ?? '', 10);
    const builtAt = Number.parseInt(fields[BUILD_TIME_FIELD] ?? '', 10);
    // A header we can't read is a damaged file: libclamav will refuse it and say why.
    return fields[0] === 'ClamAV-VDB' && version > 0 && builtAt > 0 ? { version, builtAt } : null;
  } finally {
    await file.close();
  }
}
