// The progress bar: on stderr, only when that is a terminal, and out of the way of what stdout prints to the same terminal.
import { SingleBar } from 'cli-progress';

export type Progress = ReturnType<typeof createProgress>;

const FILES = 'Scanning {bar} {value}/{total} files, {eta_formatted} left';
const CLEAR_LINE = '\r\x1b[K';

export function createProgress() {
  const stream = process.stderr;
  const bars = new Map<string, SingleBar>();
  const barOf = (format: string): SingleBar => {
    const bar = bars.get(format) ?? newBar(stream, format);
    bars.set(format, bar);
    return bar;
  };
  let current: SingleBar | null = null;
  let stopped = false;
  const show = (bar: SingleBar, total: number): SingleBar => {
    if (current !== bar && !stopped) {
      current?.stop();
      bar.start(total, 0);
      current = bar;
    }
    return bar;
  };
  return {
    /** The engine's load, 0 to 1. */
    loading: (fraction: number): void => show(barOf('Loading signatures {bar} {percentage}%'), 1).update(fraction),
    /** Anything else, 0 to 1; null: nobody knows how long it takes. */
    doing: (what: string, fraction: number | null): void =>
      show(barOf(`${what} ${fraction === null ? 'for {duration_formatted}' : '{bar} {percentage}%'}`), 1).update(
        fraction ?? 0,
      ),
    /** So many of those that are known of, which may become more. */
    counting(what: string, done: number, total: number): void {
      const bar = show(barOf(`${what}, {eta_formatted} left`), total);
      bar.setTotal(total);
      bar.update(done);
    },
    /** Files that are known of; it grows while folders are read. */
    total: (files: number): void => show(barOf(FILES), files).setTotal(files),
    scanned: (files: number): void => show(barOf(FILES), files).update(files),
    /** Takes the bar off the screen; it comes back by itself. */
    hide(): void {
      if (stream.isTTY) stream.write(CLEAR_LINE);
    },
    /** Takes it off for good. */
    stop(): void {
      stopped = true;
      current?.stop();
      current = null;
    },
    shown: stream.isTTY,
  };
}

function newBar(stream: NodeJS.WriteStream, format: string): SingleBar {
  // Redrawn at every frame, because lines that stdout prints wipe it; signals are ours to handle.
  return new SingleBar({
    stream,
    format,
    clearOnComplete: true,
    forceRedraw: true,
    hideCursor: false,
    gracefulExit: false,
  });
}
