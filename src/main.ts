#!/usr/bin/env node
import { existsSync } from 'node:fs';
// The way in: runs the command line and exits with its code, also when a thread is still busy.
import * as nodeModule from 'node:module';
import { pathToFileURL } from 'node:url';
import { bundledProgramPath, compileCacheDirectory } from './paths.js';

// From Node 22.1 on, what V8 has compiled once is read the next time; it is kept beside the code, and trusted as that is.
if ('enableCompileCache' in nodeModule && typeof nodeModule.enableCompileCache === 'function') {
  nodeModule.enableCompileCache(compileCacheDirectory);
}
// The build puts the program's modules and their libraries into a few files. Where only tsc ran, the modules are there.
const { run }: typeof import('./cli/program.js') = existsSync(bundledProgramPath)
  ? await import(pathToFileURL(bundledProgramPath).href)
  : await import('./cli/program.js');

// A umask that takes rights from the owner himself (0777) leaves folders that nobody could write to who isn't root.
process.umask(process.umask() & 0o077);
const streams = [process.stdout, process.stderr];
// The reader has seen enough (`sluice user list | head -1`): what was begun is done.
for (const stream of streams) stream.on('error', () => undefined);
const exitCode = await run(process.argv, process.env);
for (const stream of streams) {
  // What a pipe has not taken yet would be lost. The callback comes in any case: with an error when the reader is gone.
  if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write('', () => resolve()));
}
process.exit(exitCode);
