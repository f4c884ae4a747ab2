// Compiles the bench's C programs with the system's compiler, when a source is newer than what was built from it.
import { execFile } from 'node:child_process';
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { builtPath, sourcePath } from './paths.js';

const run = promisify(execFile);

export interface Program {
  readonly name: string;
  readonly sources: readonly string[];
  readonly libraries: readonly string[];
}

export const rawLoopProgram: Program = {
  name: 'raw-loop',
  sources: ['raw-loop.c', 'files.h'],
  libraries: ['-lclamav', '-lpthread'],
};

export const loadProgram: Program = {
  name: 'load',
  sources: ['load.c', 'targets.h', 'files.h'],
  libraries: ['-lpthread'],
};

export const windowsProgram: Program = {
  name: 'windows',
  sources: ['prior/windows.c', '../native/windows.h'],
  libraries: ['-lclamav'],
};

/** Builds the program where it is out of date and returns its path. */
export async function compile(program: Program): Promise<string> {
  const output = builtPath(program.name);
  const [main] = program.sources;
  if (main === undefined) throw new Error(`${program.name} has no source`);
  if (await isFresh(output, program.sources.map(sourcePath))) return output;
  await mkdir(dirname(output), { recursive: true });
  const flags = ['-O2', '-std=gnu11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-o', output];
  try {
    await run('cc', [...flags, sourcePath(main), ...program.libraries]);
  } catch (cause) {
    throw new Error(`${main} does not compile; it needs a C compiler and Debian's libclamav-dev`, { cause });
  }
  return output;
}

async function isFresh(output: string, sources: readonly string[]): Promise<boolean> {
  const times = await Promise.all(
    [output, ...sources].map((path) =>
      stat(path).then(
        (found) => found.mtimeMs,
        () => null,
      ),
    ),
  );
  const [builtAt, ...changedAt] = times;
  return typeof builtAt === 'number' && changedAt.every((time) => time !== null && time < builtAt);
}
