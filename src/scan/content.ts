// One content on its way into lent memory, wherever its bytes come from: hashed while it arrives, compared to its limit at each byte.
// What has arrived while there is no memory for it is kept aside. The content behind a URL is what its origin sends.
import { createHash, type Hash, hash } from 'node:crypto';
import type { Downloads, OriginBody } from '../download/downloads.js';
import { Failure } from '../errors.js';
import { SMALL_UPLOAD_BYTES } from '../limits.js';
import { type InLine, Line } from '../waiting/line.js';
import { later } from '../waiting/within.js';
import { type Block, blockSize, copyInto } from './memory/arena.js';

const MIB = 1024 * 1024;

export interface ContentOwner {
  /** What was kept aside is in the content now: there was room. */
  onRoom(): void;
  /** It has waited too long, or its memory is needed for others. It must be released now. */
  onNoRoom(reason: Failure): void;
}

/** Memory that contents share. */
export interface Lender {
  /** The largest content that any protocol takes. */
  readonly largestBytes: number;
  /**
   * Asks for room for so many bytes, of which the content has its `sizeBytes`; these are in the new block then. True: there is room now.
   * False: the content hears of it, and keeps what has arrived until then; it may ask for more meanwhile.
   */
  grow(content: Content, bytes: number): boolean;
  /** The content is whole: it won't grow, and isn't ended for the sake of others any more. */
  seal(content: Content): void;
  /** Takes everything back; those that wait are served after it. */
  release(content: Content): void;
}

/** What one account has. Only the lender and the line of those who wait write to it. */
export class AccountMemory {
  readonly id: string;
  /** Bytes of the shared part, those that wait included. */
  sharedBytes = 0;
  /** Those of them that wait. */
  waitingBytes = 0;
  /** Bytes of the finishing room. */
  finishingBytes = 0;
  /** What its contents on their way may still ask for. */
  claimedBytes = 0;
  /** Those that have begun and are not released. */
  contents = 0;
  /** On their way, the oldest first. */
  readonly receiving = new Line<Content>();
  /** Those that wait, each with the oldest first. */
  readonly waitingSmall: Content[] = [];
  readonly waitingLarge: Content[] = [];

  constructor(id: string) {
    this.id = id;
  }
}

interface ContentBounds {
  readonly account: string;
  readonly limitBytes: number;
  /** What it may have at most, as was declared; null: nothing was. */
  readonly expectedBytes: number | null;
}

/** Content up to this size is hashed when it is whole, in one step: a hash object costs as much as hashing some KB. */
const HASHED_AT_ONCE_BYTES = 64 * 1024;
const NONE: Uint8Array[] = [];
const NOTHING: Block = new Uint8Array(new SharedArrayBuffer(0));

export class Content implements InLine<Content> {
  readonly lender: Lender;
  readonly owner: ContentOwner;
  /** Of the protocol: one byte more is refused. */
  readonly limitBytes: number;
  /** The first `sizeBytes` of it are the content so far. Nobody else has it until the release. */
  block: Block = NOTHING;
  sizeBytes = 0;
  /** 64 lower-case hexadecimal characters, once it is whole. */
  sha256 = '';
  isReleased = false;
  /** Bytes that have arrived and have no room. */
  asideBytes = 0;
  /** Bytes are kept aside: the owner hears when there is room, and nothing should be appended before that. */
  isWaiting = false;
  #aside: Uint8Array[] = NONE;
  #running: Hash | null = null;
  #hashedBytes = 0;

  // What follows is written by the lender alone.
  readonly accountId: string;
  /** Its largest block. */
  readonly limitSize: number;
  readonly isSmall: boolean;
  /** How large it may become was declared. */
  readonly isDeclared: boolean;
  /** It is whole. */
  isSealed = false;
  /** Null: nothing has arrived. */
  account: AccountMemory | null = null;
  beganAtMs = 0;
  /** In the order in which they began. */
  number = 0;
  /** How many bytes of the block are of the finishing room. */
  finishingBytes = 0;
  neededBytes = 0;
  /** Of `asideBytes`, those that are counted. */
  waitingBytes = 0;
  waitingSinceMs = 0;
  /** Until when its wait has been counted. */
  countedMs = 0;
  /** Others have what it waits for, not its own account. */
  isHeldUp = false;
  /** How long it may wait for others, and for its own account, all waits together. */
  waitLeftMs = 0;
  ownWaitLeftMs = 0;
  /** In the line of those of its account that are on their way. */
  before: Content | null = null;
  behind: Content | null = null;

  /** Nothing is lent for what was declared, and the content must stay below it. */
  constructor(lender: Lender, { account, limitBytes, expectedBytes }: ContentBounds, owner: ContentOwner) {
    this.lender = lender;
    this.owner = owner;
    this.limitBytes = limitBytes;
    this.accountId = account;
    this.limitSize = blockSize(expectedBytes ?? limitBytes, Math.min(limitBytes, lender.largestBytes));
    this.isSmall = (expectedBytes ?? limitBytes) <= SMALL_UPLOAD_BYTES;
    this.isDeclared = expectedBytes !== null;
  }

  /** Copies the bytes in, or aside. Throws Failure `fileTooLarge` at the first byte over the limit. */
  append(bytes: Uint8Array): void {
    const total = this.sizeBytes + this.asideBytes + bytes.length;
    if (total > this.limitBytes) throw new Failure('fileTooLarge');
    if ((total <= this.block.length || this.lender.grow(this, total)) && !this.isWaiting) this.#write(bytes);
    // A copy: the caller's memory is not ours after this call. A content that is refused within the call has nothing any more.
    else if (!this.isReleased) {
      if (!this.isWaiting) this.#aside = [];
      this.isWaiting = true;
      this.#aside.push(new Uint8Array(bytes));
      this.asideBytes += bytes.length;
    }
  }

  /** For the lender: there is room for all that has arrived. */
  takeUp(): void {
    if (this.isReleased) return;
    const aside = this.#aside;
    this.#aside = NONE;
    this.isWaiting = false;
    this.asideBytes = 0;
    for (const bytes of aside) this.#write(bytes);
    this.owner.onRoom();
  }

  /** All of it has come; to be called when nothing waits. Throws Failure `fileEmpty`. */
  finish(): void {
    const { block, sizeBytes } = this;
    if (sizeBytes === 0) throw new Failure('fileEmpty');
    this.lender.seal(this);
    if (this.#running === null) this.sha256 = hash('sha256', block.subarray(0, sizeBytes));
    else this.sha256 = this.#running.digest('hex');
  }

  /** Gives the memory back: nothing writes to it or reads it any more. */
  release(): void {
    if (this.isReleased) return;
    this.isReleased = true;
    this.#aside = NONE;
    this.isWaiting = false;
    this.lender.release(this);
    this.block = NOTHING;
  }

  #write(bytes: Uint8Array): void {
    copyInto(this.block, this.sizeBytes, bytes);
    this.sizeBytes += bytes.length;
    if (this.sizeBytes <= HASHED_AT_ONCE_BYTES) return;
    this.#running ??= createHash('sha256');
    this.#running.update(this.block.subarray(this.#hashedBytes, this.sizeBytes));
    this.#hashedBytes = this.sizeBytes;
  }
}

/** A limit as messages have it, after the contract's 10MB: to the byte, where it is no whole number of MB. */
export function limitText(bytes: number): string {
  return bytes % MIB === 0 ? `${bytes / MIB}MB` : `${bytes} bytes`;
}

/** Throws Failure `fileTooLarge`: also for a length that was only declared. */
export function assertWithin(limitBytes: number, sizeBytes: number): void {
  if (sizeBytes > limitBytes) throw new Failure('fileTooLarge');
}

export interface UrlParts {
  readonly downloads: Pick<Downloads, 'fetch' | 'check'>;
  /** A budget of its own: slow origins must not keep uploads waiting. */
  readonly downloadMemory: Lender;
}

interface UrlRequest {
  readonly url: string;
  /** Whose slot and memory it is. */
  readonly account: string;
  readonly limitBytes: number;
  readonly signal: AbortSignal;
}

/**
 * Resolves with the whole content, which the caller releases. Rejects with Failure `urlRejected`, `downloadFailed`, `fileTooLarge`, `fileEmpty` or
 * `unavailable`, with the signal's reason when it aborts; everything is given back then.
 */
export function receiveUrl(request: UrlRequest, { downloads, downloadMemory }: UrlParts): Promise<Content> {
  const { url, account, limitBytes, signal } = request;
  return downloads.fetch(url, account, signal, async (origin) => {
    const { declaredBytes: expectedBytes } = origin;
    if (expectedBytes !== null) assertWithin(limitBytes, expectedBytes);
    return await new Download(downloadMemory, { account, limitBytes, expectedBytes }, origin).whole();
  });
}

/** The origin is held while there is no room for what has arrived. */
class Download implements ContentOwner {
  readonly #whole = later<Content>();
  readonly #content: Content;
  readonly #origin: OriginBody;
  #hasEnded = false;

  constructor(lender: Lender, bounds: ConstructorParameters<typeof Content>[1], origin: OriginBody) {
    this.#content = new Content(lender, bounds, this);
    this.#origin = origin;
    origin
      .receive((bytes) => this.#take(bytes))
      .then(
        () => this.#end(),
        (error: unknown) => this.#fail(error),
      );
  }

  whole(): Promise<Content> {
    return this.#whole.promise;
  }

  onRoom(): void {
    if (this.#hasEnded) this.#finish();
    else this.#origin.goOn();
  }

  onNoRoom(reason: Failure): void {
    this.#fail(reason);
  }

  #take(bytes: Uint8Array): void {
    if (this.#content.isReleased) return;
    try {
      this.#content.append(bytes);
      if (this.#content.isWaiting) this.#origin.hold();
    } catch (error) {
      this.#fail(error);
    }
  }

  #end(): void {
    this.#hasEnded = true;
    if (!this.#content.isWaiting && !this.#content.isReleased) this.#finish();
  }

  #finish(): void {
    try {
      this.#content.finish();
      this.#whole.resolve(this.#content);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(reason: unknown): void {
    this.#content.release();
    this.#whole.reject(reason);
  }
}
