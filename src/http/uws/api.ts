// What is used of uWebSockets.js: written down here, so that any of its builds will do, whatever types it comes with.

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
