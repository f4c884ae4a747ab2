// What HTTP costs without a service behind it: the library of the service takes each request whole, looks at nothing, and answers what a clean
// scan is answered, with as many headers. Says its port on stdout, and ends with its stdin.
import { randomUUID } from 'node:crypto';
import { loadUws } from '../src/http/uws/wire.js';

const headers: readonly (readonly [string, string])[] = [
  ['Content-Type', 'application/json; charset=utf-8'],
  ['X-Request-Id', randomUUID()],
  ['X-Content-Type-Options', 'nosniff'],
  ['Cache-Control', 'no-store'],
  ['X-RateLimit-Limit', '1000000'],
  ['X-RateLimit-Remaining', '999999'],
  ['X-RateLimit-Reset', '1800000000'],
  ['X-Scan-Id', randomUUID()],
  ['X-Scan-Sha256', '0'.repeat(64)],
  ['X-Scan-Engine', 'clamav/1.4.6 (16 signatures)'],
  ['X-Scan-Cache', 'MISS'],
];
const body = JSON.stringify({
  filename: 'sample.bin',
  extension: 'bin',
  sizeInBytes: 1024,
  scanDurationMillis: 0,
  infected: false,
  virusName: null,
});

const loaded = await loadUws();
if ('problems' in loaded) throw new Error(loaded.problems.join('; '));
const { library } = loaded;
library
  .App()
  .any('/*', (response) => {
    response.onAborted(() => undefined);
    response.onData((_chunk, isLast) => {
      if (!isLast) return;
      response.cork(() => {
        response.writeStatus('200 OK');
        for (const [name, value] of headers) response.writeHeader(name, value);
        response.end(body);
      });
    });
  })
  .listen('127.0.0.1', 0, (socket) => {
    if (socket === false) throw new Error('it can not listen');
    process.stdout.write(`${library.us_socket_local_port(socket)}\n`);
  });
process.stdin.once('end', () => process.exit()).resume();
