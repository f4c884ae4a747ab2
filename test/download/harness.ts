// Downloads with the real guard between a hostile DNS server and a hostile origin; "public" addresses are dialled on loopback.
import type { Test } from 'tap';
import { createDownloads, createResolve, type Downloads } from '../../src/download/downloads.js';
import { createGuard } from '../../src/download/guard.js';
import { nameFromUrl } from '../../src/filename.js';
import { type Content, type Lender, receiveUrl } from '../../src/scan/content.js';
import { UploadMemory } from '../../src/scan/memory/memory.js';
import type { Certificate } from '../fixtures/certificate.js';
import {
  addressRecords,
  type DnsAnswer,
  type DnsServer,
  type Question,
  startDnsServer,
} from '../fixtures/dns-server.js';
import { type Origin, type OriginAnswer, type OriginConnection, startOrigin } from '../fixtures/origin.js';

export const MIB = 1024 * 1024;
export const PUBLIC = '93.184.215.14';
export const LIMIT_BYTES = 10 * MIB;
export const URL_OF_FILE = 'http://files.example/a/report.pdf?version=2#page=3';
export const LOST = 'downloadFailed: the connection was lost before the end of the response';

export interface HarnessSettings {
  readonly dns?: (question: Question) => DnsAnswer;
  readonly answer?: OriginAnswer;
  /** For the origin at port 443; without one the same plain origin is there. */
  readonly tls?: Certificate;
  readonly budgetBytes?: number;
  readonly waitMs?: number;
  readonly perUser?: number;
  readonly total?: number;
  readonly timeoutMs?: number;
  readonly dnsMs?: number;
  readonly connectMs?: number;
  readonly headersMs?: number;
  readonly idleMs?: number;
  readonly allowNetworks?: readonly string[];
  /** Where an address is dialled instead; default: the origin's. */
  readonly dialAddress?: (address: string) => string;
}

export interface Harness {
  readonly downloads: Downloads;
  readonly memory: UploadMemory;
  readonly dns: DnsServer;
  readonly origin: Origin;
  /** Every address that was dialled. */
  readonly dialled: string[];
  /** The most that was lent at one time. */
  readonly peakBytes: () => number;
  /** Downloads and gives the memory back at once. */
  fetch(url: string, options?: { readonly user?: string; readonly signal?: AbortSignal }): Promise<Fetched>;
}

export interface Fetched {
  readonly filename: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly text: string;
}

/** Every name has one public address. */
const anyPublic = (question: Question): DnsAnswer => addressRecords(question, [PUBLIC]);
/** Generous where a test isn't about time: it must not fail on a slow machine. */
const AMPLE_MS = 60_000;

export async function openHarness(t: Test, settings: HarnessSettings = {}): Promise<Harness> {
  const { dns: script = anyPublic, answer = () => undefined, tls } = settings;
  const dns = await startDnsServer(script);
  const origin = await startOrigin(answer);
  const secure = tls === undefined ? origin : await startOrigin(answer, tls);
  t.teardown(async () => {
    await Promise.all([dns.stop(), origin.stop(), ...(secure === origin ? [] : [secure.stop()])]);
  });
  const budgetBytes = settings.budgetBytes ?? 64 * MIB;
  const waitMs = settings.waitMs ?? AMPLE_MS;
  const memory = new UploadMemory({ budgetBytes, reserveShare: 0.25, waitMs, ownWaitMs: waitMs, use: 'downloads' });
  let peakBytes = 0;
  const dialled: string[] = [];
  const downloads = createDownloads({
    guard: createGuard({ allowNetworks: settings.allowNetworks ?? [] }),
    resolve: createResolve({ servers: [dns.address], hosts: new Map(), timeoutMs: settings.dnsMs ?? AMPLE_MS }),
    limits: { perUser: settings.perUser ?? 1000, total: settings.total ?? 1000 },
    timeoutMs: settings.timeoutMs ?? AMPLE_MS,
    userAgent: 'Sluice/1.2.3',
    connectMs: settings.connectMs ?? AMPLE_MS,
    headersMs: settings.headersMs ?? AMPLE_MS,
    idleMs: settings.idleMs ?? AMPLE_MS,
    redial({ address, port }) {
      dialled.push(address);
      return {
        address: settings.dialAddress?.(address) ?? '127.0.0.1',
        port: port === 443 ? secure.port : origin.port,
      };
    },
  });
  const downloadMemory = watched(memory, () => {
    peakBytes = Math.max(peakBytes, memory.lentBytes);
  });
  return {
    downloads,
    memory,
    dns,
    origin,
    dialled,
    peakBytes: () => peakBytes,
    async fetch(url, { user = 'a user', signal = new AbortController().signal } = {}) {
      const request = { url, account: user, limitBytes: LIMIT_BYTES, signal };
      const received = await receiveUrl(request, { downloads, downloadMemory });
      return keep(nameFromUrl(new URL(url)).filename, received);
    },
  };
}

/** Calls back whenever something was asked of it. */
function watched(memory: UploadMemory, look: () => void): Lender {
  return {
    largestBytes: memory.largestBytes,
    seal: (content) => memory.seal(content),
    release: (content) => memory.release(content),
    grow(content, bytes) {
      const isThere = memory.grow(content, bytes);
      look();
      return isThere;
    },
  };
}

function keep(filename: string, content: Content): Fetched {
  const { sizeBytes, sha256, block } = content;
  const text = Buffer.from(block.subarray(0, Math.min(sizeBytes, 100))).toString('latin1');
  content.release();
  return { filename, sizeBytes, sha256, text };
}

/** What a download was refused with: `code: detail`. */
export async function refusal(work: Promise<unknown>): Promise<string> {
  try {
    return `it succeeded: ${JSON.stringify(await work)}`;
  } catch (error) {
    if (!(error instanceof Error)) return String(error);
    const { code, detail } = { code: error.name, detail: error.message, ...error };
    return detail === '' ? code : `${code}: ${detail}`;
  }
}

/** Sends pieces until the other side is gone; returns how many bytes it took. */
export async function flood(connection: OriginConnection, piece: Uint8Array | string): Promise<number> {
  let sent = 0;
  while (await connection.send(piece)) sent += piece.length;
  return sent;
}

/** Whatever happened, everything is given back, and the next download works. */
export function cleared(t: Test, { downloads, memory }: Harness): void {
  t.equal(memory.lentBytes, 0, 'no memory is lent');
  t.equal(memory.waiting, 0);
  t.equal(downloads.running, 0, 'no slot is taken');
}
