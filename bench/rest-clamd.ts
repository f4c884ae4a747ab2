// A REST service around clamd as one writes it oneself: clamscan of npm, the client of clamd that most use, behind node:http and a parser of forms. It keeps no history, knows no key
// and counts nothing. Says its port on stdout, and ends with its stdin. Arguments: folder of the signatures, threads of clamd.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { Busboy } from '@fastify/busboy';
import { z } from 'zod';
import { startClamd } from '../test/fixtures/clamd.js';

const [databaseDirectory = '', threads = ''] = process.argv.slice(2);
const clamd = await startClamd({ databaseDirectory, threads: Number(threads) });
const NodeClam = createRequire(import.meta.url)('clamscan');
const clam = await new NodeClam().init({
  preference: 'clamdscan',
  clamdscan: { socket: clamd.socketPath, localFallback: false },
});
const Scanned = z.object({ isInfected: z.boolean(), viruses: z.array(z.string()) });

function answer(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
  response.end(text);
}

function serve(request: IncomingMessage, response: ServerResponse): void {
  const form = new Busboy({ headers: { ...request.headers, 'content-type': request.headers['content-type'] ?? '' } });
  form.on('file', (_field, file, filename) => {
    clam.scanStream(file).then(
      (scanned: unknown) => {
        const { isInfected, viruses } = Scanned.parse(scanned);
        answer(response, 200, { filename, infected: isInfected, virusName: viruses[0] ?? null });
      },
      (error: unknown) => answer(response, 502, { error: String(error) }),
    );
  });
  form.on('error', (error: unknown) => answer(response, 400, { error: String(error) }));
  request.pipe(form);
}

const server = createServer(serve);
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.stdout.write(`${typeof address === 'object' ? address?.port : ''}\n`);
});
const end = (): void => void clamd.stop().finally(() => process.exit());
// Who has started it ends its stdin and sends a signal at once: clamd would outlive that.
process.once('SIGTERM', end);
process.stdin.once('end', end).resume();
