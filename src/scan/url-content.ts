// The content behind a URL: what the origin sends, into lent memory.
import type { Downloads, OriginBody } from '../download/downloads.js';
import type { Failure } from '../errors.js';
import { assertWithin, Content, type ContentOwner, type Lender } from './content.js';

export interface UrlParts {
  readonly downloads: Pick<Downloads, 'fetch' | 'check'>;
  /** A budget of its own: slow origins must not keep uploads waiting. */
  readonly downloadMemory: Lender;
}

export interface UrlRequest {
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
    return await new Download(downloadMemory, { account, limitBytes, expectedBytes }, origin).whole;
  });
}

/** The origin is held while there is no room for what has arrived. */
class Download implements ContentOwner {
  readonly whole: Promise<Content>;
  readonly #content: Content;
  readonly #origin: OriginBody;
  #hasEnded = false;
  #resolve: (content: Content) => void = () => undefined;
  #reject: (reason: unknown) => void = () => undefined;

  constructor(lender: Lender, bounds: ConstructorParameters<typeof Content>[1], origin: OriginBody) {
    this.#content = new Content(lender, bounds, this);
    this.#origin = origin;
    this.whole = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    origin
      .receive((bytes) => this.#take(bytes))
      .then(
        () => this.#end(),
        (error: unknown) => this.#fail(error),
      );
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
      this.#resolve(this.#content);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(reason: unknown): void {
    this.#content.release();
    this.#reject(reason);
  }
}
