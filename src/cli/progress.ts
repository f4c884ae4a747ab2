// The progress bar: on stderr, only when that is a terminal, and out of the way of what stdout prints to the same terminal.
import { SingleBar } from 'cli-progress';

export interface Progress {
  /** The engine's load, 0 to 1. */
  loading(fraction: number): void;
  /** Anything else, 0 to 1; null: nobody knows how long it takes. */
  doing(what: string, fraction: number | null): void;
  /** Files that are known of; it grows while folders are read. */
  total(files: number): void;
  scanned(files: number): void;
  /** Takes the bar off the screen; it comes back by itself. */
  hide(): void;
  /** Takes it off for good. */
  stop(): void;
  readonly shown: boolean;
}

const CLEAR_LINE = '\r\x1b[K';

export const createProgress = (stream: NodeJS.WriteStream): Progress => (stream.isTTY ? barOn(stream) : NO_PROGRESS);

const NO_PROGRESS: Progress = {
  loading: () => undefined,
  doing: () => undefined,
  total: () => undefined,
  scanned: () => undefined,
  hide: () => undefined,
  stop: () => undefined,
  shown: false,
};

function barOn(stream: NodeJS.WriteStream): Progress {
  const others = new Map<string, SingleBar>();
  const barOf = (format: string): SingleBar => {
    const bar = others.get(format) ?? newBar(stream, format);
    others.set(format, bar);
    return bar;
  };
  const bars = {
    load: newBar(stream, 'Loading signatures {bar} {percentage}%'),
    files: newBar(stream, 'Scanning {bar} {value}/{total} files, {eta_formatted} left'),
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
    loading: (fraction) => show(bars.load, 1).update(fraction),
    doing: (what, fraction) =>
      show(barOf(`${what} ${fraction === null ? 'for {duration_formatted}' : '{bar} {percentage}%'}`), 1).update(
        fraction ?? 0,
      ),
    total: (files) => show(bars.files, files).setTotal(files),
    scanned: (files) => show(bars.files, files).update(files),
    hide: () => void stream.write(CLEAR_LINE),
    stop() {
      stopped = true;
      current?.stop();
      current = null;
    },
    shown: true,
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
