#!/usr/bin/env node
// The way in: runs the command line and exits with its code, also when a thread is still busy.
import { run } from './cli/program.js';

const exitCode = await run(process.argv, process.env);
for (const stream of [process.stdout, process.stderr]) {
  // What a pipe has not taken yet would be lost. The callback comes in any case: with an error when the reader is gone.
  if (stream.writableLength > 0) await new Promise<void>((resolve) => stream.write('', () => resolve()));
}
process.exit(exitCode);
