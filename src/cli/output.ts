// Standard output with back-pressure: a slow reader slows the scan down, and a reader that closes the pipe ends it.
import type { Progress } from './progress.js';

export interface Output {
  /** Resolves when more may be written. */
  write(text: string): Promise<void>;
}

/** `onClosed`: the reader is gone (`sluice scan ... | head`); what is written from then on is dropped. */
export function createOutput(stream: NodeJS.WriteStream, progress: Progress, onClosed: () => void): Output {
  let closed = false;
  let resume: () => void = () => undefined;
  stream.on('drain', () => resume());
  stream.on('error', () => {
    closed = true;
    onClosed();
    resume();
  });
  return {
    async write(text) {
      if (closed || text === '') return;
      if (stream.isTTY) progress.hide();
      if (stream.write(text)) return;
      await new Promise<void>((resolve) => {
        resume = resolve;
      });
    },
  };
}
