// A process that makes the mistake which its arguments name, deep below what calls it.
import { createLog } from '../../src/log.js';
import { sayLastWords } from '../../src/supervisor/own-process.js';

const [, , kind, what] = process.argv;
const { log, flush } = createLog('info');
sayLastWords(log, () => void flush().finally(() => process.exit(70)));

function theMistake(): never {
  deep(15);
  throw new Error('This is not reached');
}

/** As many frames of somebody else's as there are in a library. */
function deep(frames: number): void {
  if (frames > 0) deep(frames - 1);
  if (what === 'value') throw Object.freeze({ why: 'nobody knows' });
  throw new TypeError('a bug');
}

if (kind === 'rejection') void Promise.resolve().then(theMistake);
else setImmediate(theMistake);
