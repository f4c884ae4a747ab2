// A program of the bench that runs while something is measured beside it.
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { pidOf } from './line-process.js';

/** Until it has started. */
const START_MS = 1_000;

/** Runs a program of this folder for as long as `during` takes. `during` is told the number of its process. Resolves with what the program prints at its end. */
export async function beside(name: string, argument: string, during: (pid: number) => Promise<void>): Promise<string> {
  const program = fileURLToPath(new URL(name, import.meta.url));
  const child = spawn(process.execPath, [program, argument], { stdio: ['pipe', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.on('data', (text: Buffer) => {
    said += text.toString();
  });
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  try {
    await sleep(START_MS);
    await during(pidOf(child));
  } finally {
    child.stdin.end();
    await ended;
  }
  return said.trim();
}
