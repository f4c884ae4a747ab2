// A process that has no file descriptor left when a file has come along by FILDES: it looks at the file and closes it, or ends with an error.
import { openSync } from 'node:fs';
import { MachineFiles } from '../../src/clamd/open-below.js';

const files = new MachineFiles([]);
const descriptor = openSync('/dev/null', 'r');
try {
  for (;;) openSync('/dev/null', 'r');
} catch {
  // There is none.
}
const along = files.holding(descriptor);
await along.stat(descriptor);
await along.close(descriptor);
