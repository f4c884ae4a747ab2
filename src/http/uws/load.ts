// uWebSockets.js as it can be had here; sole loader of its packages. None is on npm by its authors: what is there are repacks of their binaries.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { messageOfError } from '../../error-text.js';
import { HTTP_HEADER_BLOCK_BYTES } from '../../limits.js';
import { fetchedUwsDirectory, installedUwsDirectory } from '../../paths.js';

export interface LoadedUws {
  readonly library: UwsModule;
  /** Its package, with the version. */
  readonly title: string;
}

interface Candidate {
  readonly directory: string;
  readonly specifier: string;
}

/** An operator's own build is installed by the name of the first one and wins; the second one is for Nodes that the first has none for. */
const candidates: readonly Candidate[] = [
  { directory: installedUwsDirectory, specifier: 'uWebSockets.js' },
  { directory: fetchedUwsDirectory, specifier: pathToFileURL(join(fetchedUwsDirectory, 'uws.js')).href },
];

const descriptionShape = z.object({ name: z.string(), version: z.string() });

/** Resolves with the first that loads, or with what is wrong with each. */
export async function loadUws(
  from: readonly Candidate[] = candidates,
): Promise<LoadedUws | { readonly problems: readonly string[] }> {
  // Read by the library when it is loaded.
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] = String(HTTP_HEADER_BLOCK_BYTES);
  const problems: string[] = [];
  for (const { directory, specifier } of from) {
    if (!existsSync(directory)) continue;
    const title = titleOf(directory);
    try {
      const imported: unknown = await import(specifier);
      return { library: readModule(imported), title: `uWebSockets.js (${title})` };
    } catch (error) {
      problems.push(`${title}: ${messageOf(error)}`);
    }
  }
  return { problems };
}

/** Builds come as modules of both kinds. Throws when it is something else. */
function readModule(imported: unknown): UwsModule {
  const inner = typeof imported === 'object' && imported !== null && 'default' in imported ? imported.default : null;
  const found = [imported, inner].find(isModule);
  if (found === undefined) throw new Error('it is not uWebSockets.js');
  const app = found.App();
  const canAdopt = 'adoptSocket' in app;
  app.close();
  if (!canAdopt) throw new Error('it has no adoptSocket: it is too old');
  return found;
}

function isModule(value: unknown): value is UwsModule {
  if (typeof value !== 'object' || value === null) return false;
  const names = ['App', 'us_listen_socket_close', 'us_socket_local_port'];
  return names.every((name) => name in value && typeof Reflect.get(value, name) === 'function');
}

function titleOf(directory: string): string {
  const { name, version } = descriptionShape.parse(JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')));
  return `${name} ${version}`;
}

/** The packages' own words, which end in the system's: only these differ. */
function messageOf(error: unknown): string {
  const lines = messageOfError(error).split('\n');
  return lines.findLast((line) => line.trim() !== '') ?? '';
}

/** https://unetworking.github.io/uWebSockets.js/generated/interfaces/HttpResponse.html; nothing may be called on a dead one. */
export interface UwsResponse {
  /** Headers may follow the status. */
  writeStatus(status: string | Uint8Array): UwsResponse;
  writeHeader(name: string, value: string): UwsResponse;
  /** False: what was written waits in memory. */
  write(chunk: string): boolean;
  /** Sends as much as there is room for. */
  tryEnd(rest: string | Uint8Array, totalBytes: number): [sent: boolean, done: boolean];
  end(body?: string | Uint8Array, closes?: boolean): UwsResponse;
  /** With a length it doesn't end the answer unless it closes; with `undefined` for one it makes one up. */
  endWithoutBody(...reported: [] | [lengthBytes: number, closes: true]): UwsResponse;
  /** Of the body, in bytes. */
  getWriteOffset(): number;
  close(): UwsResponse;
  pause(): void;
  resume(): void;
  /** What is written inside goes out in one packet. */
  cork(write: () => void): UwsResponse;
  onWritable(listener: (offset: number) => boolean): UwsResponse;
  onAborted(listener: () => void): UwsResponse;
  /** The chunk's memory is gone when the listener returns. */
  onData(listener: (chunk: ArrayBuffer, isLast: boolean) => void): UwsResponse;
  getRemoteAddressAsText(): ArrayBuffer;
}

/** Gone when the handler returns. */
export interface UwsRequest {
  getCaseSensitiveMethod(): string;
  getUrl(): string;
  getQuery(): string | undefined;
  forEach(each: (name: string, value: string) => void): void;
}

/** Opaque. */
export type UwsListenSocket = object;

export interface UwsApp {
  any(pattern: string, handler: (response: UwsResponse, request: UwsRequest) => void): UwsApp;
  /** Called with 1 for each connection that opens, and with -1 for each that closes. */
  filter(handler: (response: UwsResponse, change: number) => void): UwsApp;
  /** Calls back before it returns. */
  listen(host: string, port: number, listening: (socket: UwsListenSocket | false) => void): UwsApp;
  /** Takes a connection that was accepted, by its descriptor. */
  adoptSocket(descriptor: number): UwsApp;
  close(): UwsApp;
}

export interface UwsModule {
  App(): UwsApp;
  us_listen_socket_close(socket: UwsListenSocket): void;
  us_socket_local_port(socket: UwsListenSocket): number;
}
