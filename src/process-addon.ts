// The addon for what Node has no call for (native/process.cc). It needs a compiler at the installation, so it may not be there.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { processAddonPath } from './paths.js';

export interface ProcessAddon {
  forbidCoreDumps(): void;
  /** With all threads, also those in a call that doesn't return: Node's own exit waits for them. */
  endProcess(code: number): void;
  /** `onRing` is called once for all that rang in a turn of the event loop: who rings sets the word to 1, and calls `ringBell` if it was 0. Returns the bell's number. */
  openBell(word: Int32Array, onRing: () => void): number;
  /** For so long from now the event loop of this thread doesn't sleep, and the word isn't 0: what rings is heard in its next turn. 0: no longer than this turn. */
  attendBell(number: number, micros: number): void;
  ringBell(number: number): void;
  closeBell(number: number): void;
  /** Whether the word is another one than expected. Waits for that, so long at most. It doesn't sleep, but lets others have its core. */
  awaitWord(words: Int32Array, index: number, expected: number, micros: number): boolean;
  /** Sleeps until the word is woken, or for so long; not at all where it isn't what is expected. May return before that. */
  sleepOnWord(words: Int32Array, index: number, expected: number, limitMs: number): void;
  wakeWord(words: Int32Array, index: number): void;
  /** Gives back the memory of their array buffer, which has no bytes from now on. */
  releaseMemory(bytes: Uint8Array): void;
  /** The C library keeps what was freed. All of it goes to the kernel, on a thread of Node's. An allocation meanwhile may wait for some milliseconds. */
  giveMemoryBack(): void;
  /** Of the program and its libraries what is looked at from now on is in the memory of the process, and not what was before. On a thread of Node's. */
  forgetProgram(): void;
  /** The whole pages among the bytes are zeros from now on. */
  discardPages(bytes: Uint8Array): void;
  /**
   * Of the calling thread, and of threads and processes that it starts. A batch thread that is woken takes no core from another one that is at work.
   * Otherwise it takes the core at once from a thread whose slice is longer (Linux 6.12 and later); 0: the kernel's own slice. `nicer` is added to
   * its nice value. Throws where the system forbids it.
   */
  schedule(isBatch: boolean, sliceMs: number, nicer: number): void;
  /** Those that the calling thread may use. */
  cores(): Int32Array;
  /** The thread with this number of the kernel's, 0: the calling one, and threads and processes that it starts from now on, use no others than these. */
  keepToCores(thread: number, cores: Int32Array): void;
  // Connections of clients: native/peers.h says what each call returns.
  openPoller(onReady: () => void): number;
  closePoller(number: number): void;
  readySockets(poller: number, events: Uint32Array): number;
  watchListener(poller: number, descriptor: number): number;
  waitingAt(descriptor: number): number | null;
  acceptPeer(poller: number, descriptor: number): number;
  acceptDescriptor(descriptor: number): number;
  peerAddress(number: number): string | null;
  receiveFrom(number: number, bytes: Buffer, descriptors: Int32Array): number;
  sendTo(number: number, bytes: Buffer, isLast: boolean): number;
  endSending(number: number): void;
  closeSocket(number: number): void;
  /** Returns a descriptor of memory that the processes see which inherit it. Its size stays. */
  openSharedMemory(bytes: number): number;
  /** All of it. */
  mapSharedMemory(descriptor: number): ArrayBuffer;
}

let loadedAddon: ProcessAddon | null | undefined;

export function processAddon(): ProcessAddon | null {
  if (loadedAddon === undefined) {
    const exported: ProcessAddon | null = existsSync(processAddonPath)
      ? createRequire(import.meta.url)(processAddonPath)
      : null;
    loadedAddon = exported;
  }
  return loadedAddon;
}
