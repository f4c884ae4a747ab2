// What a connection has brought, on its way into the parser of its protocol: it waits here while the parser is held, and the client with it.
import type { Peer } from './peers.js';

export interface Reader {
  /** Nothing more is taken until it is false again. */
  isHeld: boolean;
  /** Returns how many bytes were taken: fewer than there are when it is held. */
  write(bytes: Uint8Array): number;
}

export interface IntakeOwner {
  /** For our part or for the client's reading: nothing more is taken meanwhile. */
  mustWait(): boolean;
}

export class Intake {
  readonly #peer: Peer;
  readonly #reader: Reader;
  readonly #owner: IntakeOwner;
  /** What has arrived and isn't taken. */
  #rest: Buffer | null;
  #isPumping: boolean;

  constructor(peer: Peer, reader: Reader, owner: IntakeOwner) {
    this.#peer = peer;
    this.#reader = reader;
    this.#owner = owner;
    this.#rest = null;
    this.#isPumping = false;
  }

  get isEmpty(): boolean {
    return this.#rest === null;
  }

  /** The bytes are the caller's again when this returns. */
  take(bytes: Buffer): void {
    const isLent = this.#rest === null;
    this.#rest = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes]);
    this.pump();
    if (isLent && this.#rest !== null) this.#rest = Buffer.from(this.#rest);
  }

  /** To be called when a reason to wait has gone. */
  pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    while (this.#rest !== null && !this.#owner.mustWait()) {
      const rest = this.#rest;
      this.#reader.isHeld = false;
      const taken = this.#reader.write(rest);
      // What was read may have been the reason to drop it.
      if (this.#rest !== null) this.#rest = taken === rest.length ? null : rest.subarray(taken);
    }
    this.#isPumping = false;
    // A client that waits with nothing sent is read from, so that its end is heard of.
    if (this.#rest === null) this.#peer.resume();
    else this.#peer.pause();
  }

  /** What has come, and what still comes, is nobody's: it is read, so that the client reads the answer before it hears of the end. */
  drop(): void {
    this.#rest = null;
    this.#peer.resume();
  }
}
