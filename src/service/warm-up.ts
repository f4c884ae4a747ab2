// A new process scans for itself before it says that it is ready: what the first clients would wait for, code that was never run and
// connections that were never opened, is behind it then. Nothing of it is recorded, counted or remembered.
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openJournal } from '../history/journal.js';
import type { Server } from '../http/server.js';

/** V8 has compiled what runs for each scan, and knows its shapes. */
const SCANS = 24;
/** With one key. Only the first of them asks the stores. */
const SCANS_EACH = 4;
/** On a slow machine fewer will do: who waits for the process waits for the first scan more than for the others. */
const SCANS_MS = 1_000;
const CONTENT_BYTES = 1024;
const TRIAL_JOURNAL_BYTES = 1024 * 1024;
/** As long as a route by itself lets a client wait. */
const ANSWER_MS = 5_000;

/** A journal whose files have no names any more: they end with this process, however it ends. */
export async function openTrialHistory() {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-trial-'));
  const ignore = (): void => undefined;
  try {
    const journal = await openJournal({
      ...{ directory, limitBytes: TRIAL_JOURNAL_BYTES },
      ...{ onDamage: ignore, onUnwritten: ignore, onTransientFailure: ignore },
    });
    return { history: journal, stop: () => journal.close() };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Sends scans to the server of its own that `open` starts on the loopback, over `connections` at a time. Resolves with how many were answered. */
export async function scanForItself(
  open: () => Promise<Pick<Server, 'port' | 'stop'>>,
  connections: number,
): Promise<number> {
  const server = await open();
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const untilMs = performance.now() + SCANS_MS;
  let sent = 0;
  let answered = 0;
  async function sendInTurn(): Promise<void> {
    let key = '';
    while (sent < SCANS && performance.now() < untilMs) {
      if (sent % SCANS_EACH < connections) key = randomBytes(16).toString('hex');
      sent += 1;
      await sendScan(server.port, agent, key);
      answered += 1;
    }
  }
  try {
    await Promise.all(Array.from({ length: connections }, sendInTurn));
  } finally {
    agent.destroy();
    await server.stop(0);
  }
  return answered;
}

function sendScan(port: number, agent: Agent, key: string): Promise<void> {
  const boundary = randomBytes(12).toString('hex');
  const body = [
    `--${boundary}`,
    'Content-Disposition: form-data; name="file"; filename="first.txt"',
    'Content-Type: text/plain',
    '',
    randomBytes(CONTENT_BYTES / 2).toString('hex'),
    `--${boundary}--`,
    '',
  ].join('\r\n');
  const headers = {
    'X-API-KEY': key,
    'Content-Type': `multipart/form-data; boundary=${boundary}`,
    'Content-Length': body.length,
  };
  const to = { host: '127.0.0.1', port, path: '/api/v1/scans', method: 'POST', agent, headers, timeout: ANSWER_MS };
  return new Promise((resolve, reject) => {
    const sending = request(to, (response) => {
      const { statusCode } = response;
      response.resume().on('end', () => {
        if (statusCode === 200) resolve();
        else reject(new Error(`A scan was answered with ${statusCode}`));
      });
    });
    sending.on('timeout', () => sending.destroy(new Error('A scan was not answered in time')));
    sending.on('error', reject).end(body);
  });
}
