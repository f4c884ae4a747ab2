// A process that has no file descriptor left when it downloads for the first time, and once more later: it prints what came of each download.
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:http';
import { createDownloads, createResolve } from '../../src/download/downloads.js';
import { createGuard } from '../../src/download/guard.js';
import { Failure } from '../../src/errors.js';

const origin = createServer((_request, response) => response.end('content')).listen(0, '127.0.0.1');
await once(origin, 'listening');
const address = origin.address();
const port = typeof address === 'object' ? address?.port : null;
const downloads = createDownloads({
  guard: createGuard({ allowNetworks: ['127.0.0.0/8'] }),
  resolve: createResolve({ servers: null, hosts: new Map() }),
  limits: { perUser: 1, total: 1 },
  timeoutMs: 60_000,
  userAgent: 'Sluice/1.2.3',
});

async function download(): Promise<string> {
  let content = '';
  try {
    await downloads.fetch(`http://127.0.0.1:${port}/`, 'a user', new AbortController().signal, (body) =>
      body.receive((bytes) => {
        content += Buffer.from(bytes).toString();
      }),
    );
    return content;
  } catch (error) {
    return error instanceof Failure ? error.label : String(error);
  }
}

async function withoutDescriptors(): Promise<string> {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    // There is none.
  }
  const came = await download();
  for (const descriptor of taken) closeSync(descriptor);
  return came;
}

const came = [await withoutDescriptors(), await download(), await withoutDescriptors(), await download()];
process.stdout.write(JSON.stringify(came));
origin.close();
