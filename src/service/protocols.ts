// What is spoken beside HTTP, as one listener: clamd's protocol and ICAP, each where it is configured.
import type { Config } from '../config/config.js';
import type { Listener } from '../listening.js';
import type { EventLog } from '../log.js';
import { type ClamdParts, createClamd } from './clamd.js';
import { createIcap, type IcapParts } from './icap.js';

export function createProtocols(config: Config, log: EventLog, parts: ClamdParts & IcapParts): Listener {
  const listeners = [createClamd(config, log, parts), createIcap(config, log, parts)].filter((each) => each !== null);
  return {
    listen() {
      for (const listener of listeners) listener.listen();
    },
    stopListening() {
      for (const listener of listeners) listener.stopListening();
    },
    async drain(limitMs) {
      await Promise.all(listeners.map((listener) => listener.drain(limitMs)));
    },
    async stop(graceMs) {
      await Promise.all(listeners.map((listener) => listener.stop(graceMs)));
    },
  };
}
