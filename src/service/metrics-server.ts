// GET /metrics: a server of its own on the loopback, which has nothing else.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { Config } from '../config/config.js';
import type { Log } from '../log.js';
import type { Metrics } from './metrics.js';

const LOOPBACK = '127.0.0.1';
/** A process that is replaced leaves its port within this and a moment. */
const RETRY_MS = 1_000;

/** Begins to listen without a wait for it: scans are served also while the port is taken. Returns what ends it. */
export function startMetrics({ adminPort, processes }: Config, log: Log, metrics: Metrics): () => Promise<void> {
  const server = createServer((request, response) => {
    answer(request, response, metrics).catch(() => response.destroy());
  });
  let retry: NodeJS.Timeout | null = null;
  let tried = 0;
  let isTold = false;
  // Each process of the service has one of the ports in a row; 0: a free one is chosen.
  const listen = (): void => void server.listen(adminPort === 0 ? 0 : adminPort + (tried % processes), LOOPBACK);
  server.on('listening', () => {
    const address = server.address();
    if (address !== null && typeof address === 'object') log.info({ port: address.port }, 'metrics');
  });
  server.on('error', (error) => {
    tried += 1;
    if (tried % processes !== 0) return listen();
    if (!isTold) log.warn({ port: adminPort, reason: error.message }, 'there are no metrics yet');
    isTold = true;
    retry = setTimeout(listen, RETRY_MS);
    retry.unref();
  });
  listen();
  return async () => {
    if (retry !== null) clearTimeout(retry);
    server.removeAllListeners('error').on('error', () => undefined);
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  };
}

async function answer(request: IncomingMessage, response: ServerResponse, metrics: Metrics): Promise<void> {
  const [path] = (request.url ?? '').split('?', 1);
  if (!isForUs(request.headers.host)) return end(response, 403, 'The host is not this machine\n');
  if (path !== '/metrics') return end(response, 404, 'Only /metrics is here\n');
  if (request.method !== 'GET' && request.method !== 'HEAD') return end(response, 405, 'Only GET\n');
  const text = await metrics.render();
  response.writeHead(200, { 'Content-Type': metrics.contentType, 'Cache-Control': 'no-store' });
  response.end(request.method === 'HEAD' ? undefined : text);
}

/** A page in a browser on this machine may send its own host's name here, but not an address. */
function isForUs(host: string | undefined): boolean {
  const name = (host ?? '').replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
  return name === 'localhost' || isIP(name) !== 0;
}

function end(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8' });
  response.end(text);
}
