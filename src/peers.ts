// Connections of clients by the addon's system calls (native/peers.cc): one object each, and no stream, timer or listener of Node's.
import { closeSync } from 'node:fs';
import { type Acceptance, Door, type Share } from './door.js';
import { type ProcessAddon, processAddon } from './process-addon.js';
import { type InLine, Line } from './waiting/line.js';
import { type PutOff, PutOffTurns } from './waiting/put-off.js';

export type Way = 'unix' | 'tcp';

export interface PeerOwner {
  /** The bytes are the owner's until this returns, and another connection's then. Descriptors, of a UNIX socket alone, are the owner's to close. */
  onBytes(bytes: Buffer, descriptors: readonly number[]): void;
  /** The client sends nothing more; it may still read. */
  onEnd(): void;
  /** All that was written has gone out. */
  onDrain(): void;
  /** Nothing follows. */
  onClose(): void;
  /** Another process takes new connections: it ends soon, at a moment at which its client expects that. */
  retire(): void;
  /** Takes nothing new, and ends when what it has is answered. */
  finish(): void;
}

export interface ListeningSocket {
  readonly way: Way;
  readonly descriptor: number;
}

/** As much as Node reads at once. */
const READ_BYTES = 64 * 1024;
/** Of one connection before others have their turn. */
const READS = 4;
/** As native/peers.cc takes at most, two words for each. */
const EVENTS = 64;
/** As native/peers.cc takes of a message. */
const DESCRIPTORS = 4;
/** Of open connections, by their numbers: some share one where there are more. */
const PLACES = 4_096;

const READABLE = 1;
const WRITABLE = 2;
const ENDING = 4;
const GONE = 8;
const NOT_NOW = -1;
/** Of those who might be accepted. */
const NOBODY = 0;

const NO_DESCRIPTORS: readonly number[] = [];

export class Peer implements InLine<Peer> {
  before: Peer | null = null;
  behind: Peer | null = null;
  readonly way: Way;
  /** Null: it is of this machine. */
  readonly address: string | null;
  /** Bytes that were written and have not gone out. */
  unsentBytes = 0;
  isClosed = false;
  /** Null: it is closed at once. */
  owner: PeerOwner | null = null;
  /** Of the addon, which counts on: no other one that is open has it. */
  readonly number: number;
  /** The next one in its place among those that are open. */
  next: Peer | null = null;
  readonly #peers: Peers;
  readonly #addon: ProcessAddon;
  #unsent: Buffer[] = [];
  /** The kernel takes no more: it says when it does. */
  #isBlocked = false;
  /** Something may be there to be read. */
  #isReadable = false;
  /** The end may be behind what is read. */
  #isEnding = false;
  /** The client doesn't read any more either. */
  #isGone = false;
  #isFlowing = false;
  #isAtEnd = false;
  #isFinished = false;

  /** It is paused at first. */
  constructor(peers: Peers, addon: ProcessAddon, { number, way }: { readonly number: number; readonly way: Way }) {
    this.way = way;
    this.address = addon.peerAddress(number);
    this.number = number;
    this.#peers = peers;
    this.#addon = addon;
  }

  /** Nothing is read within this call. */
  resume(): void {
    if (this.#isFlowing) return;
    this.#isFlowing = true;
    if (this.#isReadable && !this.isClosed) this.#peers.readLater(this);
  }

  /** What comes meanwhile waits in the kernel. */
  pause(): void {
    this.#isFlowing = false;
  }

  /** What is written in one turn of the event loop goes out together. The bytes are the connection's from now on. */
  write(bytes: Buffer): void {
    if (this.#isFinished || this.isClosed) return;
    this.#unsent.push(bytes);
    this.unsentBytes += bytes.length;
    if (!this.#isBlocked) this.#peers.sendLater(this);
  }

  /** Nothing more is written: the client reads the end when it has read what was. */
  end(): void {
    if (this.#isFinished || this.isClosed) return;
    this.#isFinished = true;
    if (!this.#isBlocked) this.#peers.sendLater(this);
  }

  /** The same, and what the client still sends is not waited for. */
  close(): void {
    this.#isAtEnd = true;
    this.end();
  }

  /** It has had its turn. */
  putOff(work: PutOff): void {
    this.#peers.putOff(work);
  }

  /** What has not gone out never does. `onClose` follows, and is not called from here. */
  destroy(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#unsent = [];
    this.unsentBytes = 0;
    this.#addon.closeSocket(this.number);
    this.#peers.closed(this);
  }

  // For `Peers`.

  onEvent(bits: number): void {
    if ((bits & ENDING) !== 0) this.#isEnding = true;
    if ((bits & GONE) !== 0) this.#isGone = true;
    if (this.#isGone && this.#isFinished && this.#unsent.length === 0) {
      this.destroy();
      return;
    }
    if ((bits & WRITABLE) !== 0 && this.#isBlocked) {
      this.#isBlocked = false;
      this.#peers.sendLater(this);
    }
    if ((bits & READABLE) === 0) return;
    this.#isReadable = true;
    this.read();
  }

  read(): void {
    for (let count = 0; this.#isReadable && this.#isFlowing && !this.isClosed; count += 1) {
      if (count === READS) {
        this.#peers.readLater(this);
        return;
      }
      this.#readOnce();
    }
  }

  #readOnce(): void {
    const { bytes } = this.#peers;
    const descriptors = this.#peers.wordsForFiles();
    const size = this.#addon.receiveFrom(this.number, bytes, descriptors);
    if (size > 0) {
      // That it was less than there was room for means that it was all: but for an end, and for a message that brings open files, or may have brought some.
      const mayBringFiles = this.way === 'unix' && (descriptors.length === 1 || descriptors[0] !== 0);
      const isAll = size < bytes.length && !this.#isEnding && !mayBringFiles;
      if (isAll) this.#isReadable = false;
      this.owner?.onBytes(bytes.subarray(0, size), openFilesIn(descriptors));
      return;
    }
    this.#isReadable = false;
    if (size === 0) this.#atEnd();
    else if (size !== NOT_NOW) this.destroy();
  }

  #atEnd(): void {
    this.#isAtEnd = true;
    this.owner?.onEnd();
    // Nobody is there to be answered.
    if (this.#isGone || (this.#isFinished && this.#unsent.length === 0)) this.destroy();
  }

  send(): void {
    if (this.isClosed || this.#isBlocked) return;
    if (this.#unsent.length > 0 && !this.#sendAll()) return;
    if (this.#isFinished) this.#endSending();
    else this.owner?.onDrain();
  }

  /** False: something is left, or it has failed. */
  #sendAll(): boolean {
    const [first = NOTHING, ...others] = this.#unsent;
    const bytes = others.length === 0 ? first : Buffer.concat(this.#unsent);
    const sent = this.#addon.sendTo(this.number, bytes, this.#isFinished);
    if (sent < 0) {
      this.destroy();
      return false;
    }
    this.unsentBytes = bytes.length - sent;
    this.#unsent = this.unsentBytes === 0 ? [] : [bytes.subarray(sent)];
    this.#isBlocked = this.unsentBytes > 0;
    return !this.#isBlocked;
  }

  #endSending(): void {
    if (this.#isAtEnd) this.destroy();
    else this.#addon.endSending(this.number);
  }
}

const NOTHING = Buffer.alloc(0);

function openFilesIn(descriptors: Int32Array): readonly number[] {
  const [count = 0] = descriptors;
  return count === 0 ? NO_DESCRIPTORS : [...descriptors.subarray(1, 1 + count)];
}

/** All connections of some listening sockets. */
export class Peers {
  /** What any of them is read into. */
  readonly bytes: Buffer;
  /** Connections that are open. */
  size = 0;
  /** Those of them that came by a port. */
  ofPorts = 0;
  /** How many, and the open files that came with what was read. */
  readonly #descriptors: Int32Array = new Int32Array(1 + DESCRIPTORS);
  readonly #noDescriptors: Int32Array = new Int32Array(1);
  /** Otherwise open files that come are given up by the kernel. */
  readonly #takesFiles: () => boolean;
  readonly #addon: ProcessAddon;
  /** Null: the connection is closed at once. */
  readonly #own: (peer: Peer) => PeerOwner | null;
  /** The first one in each place. No Map: see `Line`. */
  readonly #open: (Peer | null)[];
  readonly #share: Share | null;
  readonly #doors: Door[] = [];
  readonly #listening: number[] = [];
  /** Of the addon; null: there is none, and nothing keeps the process. */
  #poller: number | null = null;
  readonly #events: Uint32Array = new Uint32Array(2 * EVENTS);
  readonly #toRead: Line<Peer> = new Line();
  readonly #putOff = new PutOffTurns();
  readonly #toSend: Peer[] = [];
  readonly #toClose: Peer[] = [];
  #isTurnEnding = false;
  #isReading = false;
  #isStopped = false;
  readonly #whenEmpty: (() => void)[] = [];

  constructor(own: (peer: Peer) => PeerOwner | null, share: Share | null = null, takesFiles = (): boolean => true) {
    const addon = processAddon();
    if (addon === null) throw new Error('There is no native addon: run "npm run build"');
    this.bytes = Buffer.allocUnsafeSlow(READ_BYTES);
    this.#addon = addon;
    this.#own = own;
    this.#open = Array.from({ length: PLACES }, () => null);
    this.#share = share;
    this.#takesFiles = takesFiles;
  }

  owners(): PeerOwner[] {
    return this.#all().flatMap(({ owner }) => owner ?? []);
  }

  /** Accepts from it, and closes its descriptor when it doesn't any more. */
  listen(listener: ListeningSocket): void {
    const { way, descriptor } = listener;
    this.#listening.push(descriptor);
    const poller = this.#poller ?? this.#addon.openPoller(() => this.#onReady());
    this.#poller = poller;
    const door = new Door({
      addon: this.#addon,
      poller,
      descriptor,
      share: this.#share,
      take: () => this.#take(this.#addon.acceptPeer(poller, descriptor), way),
    });
    this.#doors.push(door);
    this.#share?.join();
    door.open();
  }

  /** For good. */
  stopListening(): void {
    this.#share?.leave();
    for (const door of this.#doors.splice(0)) door.shut();
    for (const descriptor of this.#listening.splice(0)) closeSync(descriptor);
    this.#isStopped = true;
    if (this.size === 0) this.#close();
  }

  destroy(): void {
    for (const peer of this.#all()) peer.destroy();
  }

  #all(): Peer[] {
    const all: Peer[] = [];
    for (const first of this.#open) for (let peer = first; peer !== null; peer = peer.next) all.push(peer);
    return all;
  }

  #find(number: number): Peer | null {
    let peer = this.#open[number % PLACES] ?? null;
    while (peer !== null && peer.number !== number) peer = peer.next;
    return peer;
  }

  /** Resolves when there is none. */
  async empty(): Promise<void> {
    if (this.size > 0) await new Promise<void>((resolve) => this.#whenEmpty.push(resolve));
  }

  #close(): void {
    if (this.#isStopped && this.#poller !== null) {
      this.#addon.closePoller(this.#poller);
      this.#poller = null;
    }
    for (const resolve of this.#whenEmpty.splice(0)) resolve();
  }

  #onReady(): void {
    if (this.#poller === null) return;
    const events = this.#events;
    const count = this.#addon.readySockets(this.#poller, events);
    for (let at = 0; at < 2 * count; at += 2) {
      const number = events[at] ?? 0;
      const peer = this.#find(number);
      // It may have been closed since the events were asked for.
      if (peer !== null) peer.onEvent(events[at + 1] ?? 0);
      else this.#doors.find((door) => door.number === number)?.look();
    }
  }

  #take(number: number, way: Way): Acceptance {
    if (number === NOBODY) return 'nobody';
    if (number === NOT_NOW) return 'notNow';
    const peer = new Peer(this, this.#addon, { number, way });
    peer.next = this.#open[number % PLACES] ?? null;
    this.#open[number % PLACES] = peer;
    this.#count(way, 1);
    peer.owner = this.#own(peer);
    if (peer.owner === null) peer.destroy();
    return 'one';
  }

  // For each `Peer`.

  wordsForFiles(): Int32Array {
    return this.#takesFiles() ? this.#descriptors : this.#noDescriptors;
  }

  readLater(peer: Peer): void {
    if (!this.#toRead.has(peer)) this.#toRead.add(peer);
    if (this.#isReading) return;
    this.#isReading = true;
    setImmediate(() => this.#read());
  }

  #read(): void {
    this.#isReading = false;
    this.#toRead.each((peer) => {
      this.#toRead.remove(peer);
      peer.read();
    });
  }

  putOff(work: PutOff): void {
    this.#putOff.add(work);
  }

  sendLater(peer: Peer): void {
    this.#toSend.push(peer);
    this.#endTurn();
  }

  closed(peer: Peer): void {
    this.#takeOut(peer);
    this.#count(peer.way, -1);
    this.#toRead.remove(peer);
    this.#toClose.push(peer);
    this.#endTurn();
  }

  #count(way: Way, difference: 1 | -1): void {
    this.size += difference;
    if (way === 'tcp') this.ofPorts += difference;
    this.#share?.say(this.size);
  }

  #takeOut(peer: Peer): void {
    const place = peer.number % PLACES;
    let before = this.#open[place] ?? null;
    if (before === peer) this.#open[place] = peer.next;
    else {
      while (before !== null && before.next !== peer) before = before.next;
      if (before !== null) before.next = peer.next;
    }
    peer.next = null;
  }

  #endTurn(): void {
    if (this.#isTurnEnding) return;
    this.#isTurnEnding = true;
    process.nextTick(() => this.#onTurnEnd());
  }

  /** What is called here may write and close in its turn. */
  #onTurnEnd(): void {
    while (this.#toSend.length > 0 || this.#toClose.length > 0) {
      for (const peer of this.#toSend.splice(0)) peer.send();
      for (const peer of this.#toClose.splice(0)) peer.owner?.onClose();
    }
    this.#isTurnEnding = false;
    if (this.size === 0) this.#close();
  }
}
