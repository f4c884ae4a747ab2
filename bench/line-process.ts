// A child process that is spoken to in lines: a command on its stdin, one answer on its stdout. Ended by pid, always.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** Longest wait for one answer: a production database loads in half a minute, a round adds a minute of patience. */
const ANSWER_TIMEOUT_MS = 180_000;
/** How long a process may take to end by itself before it is killed. */
const STOP_TIMEOUT_MS = 10_000;
const COMPLAINT_CHARACTERS = 2_000;

export interface LineProcess {
  readonly pid: number;
  /** The next line it says without being asked. */
  next(): Promise<string>;
  ask(command: string): Promise<string>;
  stop(): Promise<void>;
}

export function startLineProcess(path: string, options: { args?: readonly string[] } = {}): LineProcess {
  const child = spawn(path, options.args ?? [], { stdio: ['pipe', 'pipe', 'pipe'] });
  const waiting: { resolve(line: string): void; reject(error: Error): void }[] = [];
  const early: string[] = [];
  let complaints = '';
  let ended: Error | null = null;

  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints = (complaints + text).slice(-COMPLAINT_CHARACTERS);
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    const first = waiting.shift();
    if (first === undefined) early.push(line);
    else first.resolve(line);
  });
  function end(error: Error): void {
    ended ??= error;
    for (const one of waiting.splice(0)) one.reject(ended);
  }
  child.on('error', end);
  child.on('close', () =>
    end(new Error(`a process of the bench ended early: ${complaints.trim() || 'no reason given'}`)),
  );
  // A write to an ended process fails here; the close above says why.
  child.stdin.on('error', end);

  function next(): Promise<string> {
    const line = early.shift();
    if (line !== undefined) return Promise.resolve(line);
    if (ended !== null) return Promise.reject(ended);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('a process of the bench does not answer')), ANSWER_TIMEOUT_MS);
      waiting.push({
        resolve(answer) {
          clearTimeout(timer);
          resolve(answer);
        },
        reject(error) {
          clearTimeout(timer);
          reject(error);
        },
      });
    });
  }

  return {
    pid: pidOf(child),
    next,
    ask(command) {
      const answer = next();
      child.stdin.write(`${command}\n`);
      return answer;
    },
    async stop() {
      child.stdin.end();
      await endProcess(child);
    },
  };
}

/** The pid of a child, or -1 when it could not be started (its error event says why). */
export function pidOf(child: ChildProcess): number {
  return child.pid ?? -1;
}

/** Asks the process to end, and kills it when it doesn't. */
export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await gone;
  clearTimeout(timer);
}
