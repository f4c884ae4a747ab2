// The terminal that a process was started on: it sends SIGHUP when it goes away, and so does an operator who wants something else.
import { isatty } from 'node:tty';

const STANDARD_STREAMS = [0, 1, 2];

/** Call at the start. Returns what says whether there was a terminal that is gone: it is none any more when its SIGHUP arrives. */
export function watchTerminal(): () => boolean {
  const onTerminal = STANDARD_STREAMS.filter((descriptor) => isatty(descriptor));
  return () => onTerminal.some((descriptor) => !isatty(descriptor));
}
