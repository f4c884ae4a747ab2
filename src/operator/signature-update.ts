// Newer signatures on an operator's word: `sluice signatures update` as a process of its own, one at a time, and what it has said so far.
import { type ChildProcess, spawn } from 'node:child_process';
import { z } from 'zod';
import { mainPath } from '../paths.js';
import { WireTime, wireTime } from '../wire-text.js';

/** Of what it says, the end is kept. */
const LINES = 20;
const LINE_CHARACTERS = 300;

export const UpdateView = z
  .object({
    state: z.enum(['idle', 'running', 'done', 'failed']).describe('Of the machine that answers'),
    startedAt: WireTime.nullable(),
    endedAt: WireTime.nullable(),
    lines: z.array(z.string()).describe('What it has said lately'),
  })
  .meta({ id: 'SignatureUpdate' });
export type UpdateView = z.infer<typeof UpdateView>;

export type SignatureUpdate = ReturnType<typeof createSignatureUpdate>;

export interface UpdateParts {
  /** Takes what is new over at once. */
  readonly onDone: () => void;
  readonly onChange: (view: UpdateView) => void;
  readonly now: () => number;
  /** The command and what it is given; a test has another one. */
  readonly command?: readonly [string, ...string[]];
}

export function createSignatureUpdate({ onDone, onChange, now, command }: UpdateParts) {
  const [program, ...args] = command ?? [process.execPath, mainPath, 'signatures', 'update'];
  let child: ChildProcess | null = null;
  let view: UpdateView = { state: 'idle', startedAt: null, endedAt: null, lines: [] };

  function set(next: UpdateView): void {
    view = next;
    onChange(view);
  }

  function hear(text: string): void {
    const lines = text.split(/[\r\n]+/).filter((line) => line.trim() !== '');
    set({ ...view, lines: [...view.lines, ...lines.map((line) => line.slice(0, LINE_CHARACTERS))].slice(-LINES) });
  }

  function end(state: 'done' | 'failed'): void {
    if (child === null) return;
    child = null;
    set({ ...view, state, endedAt: wireTime(new Date(now())) });
    if (state === 'done') onDone();
  }

  return {
    view: () => view,
    /** False: one is running already. */
    start(): boolean {
      if (child !== null) return false;
      set({ state: 'running', startedAt: wireTime(new Date(now())), endedAt: null, lines: [] });
      const started = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
      child = started;
      for (const stream of [started.stdout, started.stderr]) stream.setEncoding('utf8').on('data', hear);
      started.on('error', (error) => {
        hear(error.message);
        end('failed');
      });
      started.on('close', (code) => end(code === 0 ? 'done' : 'failed'));
      return true;
    },
    async stop(): Promise<void> {
      const running = child;
      if (running === null) return;
      await new Promise<void>((resolve) => {
        running.once('close', () => resolve());
        running.kill('SIGTERM');
      });
    },
  };
}
