// The progress bar: on stderr, only when that is a terminal, and out of the way of what stdout prints to the same terminal.
import { SingleBar } from 'cli-progress';

export type Progress = Omit<ReturnType<typeof barOn>, 'shown'> & { readonly shown: boolean };

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

function barOn(stream: NodeJS.WriteStream) {
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
    /** The engine's load, 0 to 1. */
    loading: (fraction: number): void => show(bars.load, 1).update(fraction),
    /** Anything else, 0 to 1; null: nobody knows how long it takes. */
    doing: (what: string, fraction: number | null): void =>
      show(barOf(`${what} ${fraction === null ? 'for {duration_formatted}' : '{bar} {percentage}%'}`), 1).update(
        fraction ?? 0,
      ),
    /** Files that are known of; it grows while folders are read. */
    total: (files: number): void => show(bars.files, files).setTotal(files),
    scanned: (files: number): void => show(bars.files, files).update(files),
    /** Takes the bar off the screen; it comes back by itself. */
    hide: (): void => void stream.write(CLEAR_LINE),
    /** Takes it off for good. */
    stop(): void {
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
