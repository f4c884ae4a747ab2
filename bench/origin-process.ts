// Process entry: a server of the files of a scenario, for scans by URL: GET /NUMBER is the file of that number in the list. It does as little as it can: it shares its cores with what
// is measured. Says its port on stdout, then answers as load.c does: files unique|fixed LIST_FILE -> ready COUNT. Ends with its stdin.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';

/** As in files.h: every content has so many bytes of its own in its middle. */
const STAMP_BYTES = 8;

interface File {
  readonly head: string;
  readonly before: Buffer;
  readonly after: Buffer;
}

let files: readonly File[] = [];
let isUnique = false;
let stamp = 0n;

const server = createServer({ noDelay: true }, (socket) => {
  socket.on('error', () => socket.destroy());
  socket.once('data', (request) => {
    const file = files[Number(/^GET \/(\d+) /.exec(request.toString('latin1', 0, 32))?.[1])];
    if (file === undefined) {
      socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
      return;
    }
    socket.cork();
    socket.write(file.head);
    socket.write(file.before);
    if (isUnique) socket.write(nextStamp());
    socket.end(file.after);
  });
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  say(String(typeof address === 'object' ? address?.port : ''));
});

for await (const line of createInterface({ input: process.stdin })) {
  const [command, kind, ...path] = line.split(' ');
  if (command !== 'files') throw new Error(`not understood: ${line}`);
  isUnique = kind === 'unique';
  const paths = (await readFile(path.join(' '), 'utf8')).split('\n').filter((one) => one !== '');
  files = await Promise.all(paths.map(readOne));
  say(`ready ${files.length}`);
}
process.exit();

async function readOne(path: string): Promise<File> {
  const bytes = await readFile(path);
  const at = Math.floor(bytes.length / 2 / STAMP_BYTES) * STAMP_BYTES;
  return {
    head: `HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\nConnection: close\r\n\r\n`,
    before: bytes.subarray(0, at),
    after: bytes.subarray(isUnique ? at + STAMP_BYTES : at),
  };
}

function nextStamp(): Buffer {
  const bytes = Buffer.alloc(STAMP_BYTES);
  stamp += 1n;
  bytes.writeBigUInt64LE(stamp);
  return bytes;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
