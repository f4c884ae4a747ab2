// A new process scans for itself before it says that it is ready: what the first clients would wait for, code that was never run and
// connections that were never opened, is behind it then. Nothing of it is recorded, counted or remembered.
import { randomBytes, randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import type { AccessControl } from '../admission/access.js';
import type { History } from '../history/history.js';
import type { Server } from '../http/server.js';
import type { Parts } from './parts.js';

/** V8 has compiled what runs for each scan, and knows its shapes. */
const SCANS = 150;
/** On a slow machine fewer will do: who waits for the process waits for the first scan more than for the others. */
const SCANS_MS = 1_000;
const CONTENT_BYTES = 1024;
/** Questions to the stores: as many as their connections have statements, and each on all of them. */
const ASKED_ROUNDS = 6;
/** As long as a route by itself lets a client wait. */
const ANSWER_MS = 5_000;

/** Nobody's account, which has all that it asks for. */
export const warmAccess: AccessControl = (() => {
  const quota = { limit: 1, remaining: 1, resetEpochSeconds: 0 };
  const admitted = {
    outcome: 'admitted',
    userId: '00000000-0000-0000-0000-000000000000',
    keyId: null,
    quota,
    refund: async () => quota,
  } as const;
  return {
    withApiKey: () => admitted,
    knownUser: () => null,
    expectedUser: () => null,
    refuse: () => undefined,
    asUser: async () => admitted,
  };
})();

/** A history that keeps nothing. */
export const unkeptHistory: Pick<History, 'refusal' | 'append'> = {
  refusal: () => null,
  append(scan) {
    // Its row is asked for as one that is kept.
    scan.row();
    setImmediate(() => scan.onRecorded());
  },
};

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
    while (sent < SCANS && performance.now() < untilMs) {
      sent += 1;
      await sendScan(server.port, agent);
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

function sendScan(port: number, agent: Agent): Promise<void> {
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
    'X-API-KEY': randomBytes(16).toString('hex'),
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

/** What the first admission asks, at the same time as it does: each question has its connection. Of a key and a user that don't exist. */
export async function askStores(parts: Pick<Parts, 'admission' | 'findKey' | 'redis'>): Promise<void> {
  const { admission, findKey, redis } = parts;
  for (let round = 0; round < ASKED_ROUNDS; round += 1) {
    const key = randomBytes(32).toString('hex');
    const questions: readonly (() => unknown)[] = [
      () => (round === 0 ? admission.admit(key) : findKey(key)),
      // In Redis it would leave an entry.
      () => (redis === null ? admission.quotaOf({ userId: randomUUID(), hourlyLimit: 1 }) : null),
    ];
    // In both orders: a connection is slow with each statement that it has not had before.
    await Promise.all((round % 2 === 0 ? questions : questions.toReversed()).map((ask) => ask()));
  }
}
