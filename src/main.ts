#!/usr/bin/env node
// The way in: runs the command line and exits with its code, also when a thread is still busy.
import { run } from './cli/program.js';

const exitCode = await run(process.argv, process.env);
process.exit(exitCode);
