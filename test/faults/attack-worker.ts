// The thread of the attackers: apart from the account that behaves, so that its times are not those of a busy client.
import { setMaxListeners } from 'node:events';
import { parentPort, workerData } from 'node:worker_threads';
import { z } from 'zod';
import {
  type Attacker,
  dripUploads,
  healthStorm,
  idleConnections,
  slowArchives,
  strangersBodies,
  wrongRequests,
} from './attack-clients.js';

const account = z.object({ key: z.string(), address: z.string() });
const orderShape = z.object({ port: z.number(), dripper: account, archiver: account, liar: account });

if (parentPort === null) throw new Error('This file is a worker thread');
const port = parentPort;
const order = orderShape.parse(workerData);
const stop = new AbortController();
setMaxListeners(0, stop.signal);
const target = { port: order.port, stop: stop.signal };
const attackers: Record<string, Attacker> = {
  drip: dripUploads(target, order.dripper),
  archives: slowArchives(target, order.archiver),
  wrong: wrongRequests(target, order.liar),
  bodies: strangersBodies(target, '127.0.0.21'),
  idle: idleConnections(target, '127.0.0.22'),
  health: healthStorm(target, '127.0.0.23'),
};
port.once('message', async () => {
  stop.abort();
  await Promise.all(Object.values(attackers).map(({ ended }) => ended));
  port.postMessage(Object.fromEntries(Object.entries(attackers).map(([name, { outcomes }]) => [name, outcomes])));
});
port.postMessage('attacking');
