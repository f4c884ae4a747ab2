// A request whose scan is to come later (Prefer: respond-async): its content goes to the disk instead of into memory, and the answer is given when it can't get lost.
import { Failure, Unavailable } from '../../errors.js';
import { extensionOf, nameFromUrl, type ShownName } from '../../filename.js';
import type { PendingScan } from '../../history/pending-scans.js';
import type { Exchange } from '../../http/exchange.js';
import { limitText } from '../content.js';
import type { AcceptedScans } from '../pending/accepted-scans.js';
import type { ArrivingContent } from '../pending/content-store.js';
import type { SealedOwner } from '../pending/sealed-file.js';
import type { ScanParts } from '../scan.js';
import type { FormSettings } from './http-scan.js';
import { type Keeper, KeptScan } from './idempotency.js';
import { acceptedReply } from './operation.js';

/** RFC 7240 section 4.1. */
export function prefersAsync({ headers }: Exchange): boolean {
  const preferences = headers.get('prefer');
  if (preferences === undefined) return false;
  return preferences.split(',').some((preference) => /^\s*respond-async\s*(?:;|$)/i.test(preference));
}

export interface AcceptingParts {
  readonly accepted: AcceptedScans;
  /** The name of a key; null: it has ended. */
  readonly nameOfKey: (userId: string, keyId: string) => Promise<string | null>;
}

export class AcceptingScan extends KeptScan implements SealedOwner {
  readonly #parts: AcceptingParts;
  #content: ArrivingContent | null = null;
  #isHeld = false;
  /** Another content may arrive in its place. */
  #leave: () => void;

  /** `keeper`: of its Idempotency-Key; null: it has none. */
  constructor(
    scans: ScanParts,
    exchange: Exchange,
    settings: FormSettings,
    { keeper, ...parts }: AcceptingParts & { readonly keeper: Keeper | null },
  ) {
    super(scans, exchange, settings, keeper);
    this.#parts = parts;
    this.#leave = () => undefined;
  }

  /** Until there is a place its body waits in the socket. */
  protected override receive(): void {
    const arrived = this.#parts.accepted.inTurn(this.account, () => this.#receiveInTurn());
    arrived.catch((error: unknown) => this.fail(error));
  }

  #receiveInTurn(): Promise<void> {
    const left = new Promise<void>((resolve) => {
      this.#leave = resolve;
    });
    try {
      super.receive();
    } catch (error) {
      this.fail(error);
    }
    return left;
  }

  override onFileBytes(bytes: Uint8Array): void {
    if (this.isTooLarge) throw new Failure('fileTooLarge');
    const content = this.#content ?? this.#begin();
    if (content.sizeBytes + bytes.length > this.limitBytes) throw new Failure('fileTooLarge');
    content.append(bytes);
    if (!content.isFull || this.#isHeld) return;
    this.#isHeld = true;
    this.hold();
  }

  #begin(): ArrivingContent {
    const content = this.#parts.accepted.begin(this.scanId ?? '', this.account, this);
    this.#content = content;
    return content;
  }

  onWritten(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    if (!this.isDecided && !this.isWhole) this.goOn();
  }

  onUnwritable(error: unknown): void {
    this.fail(new Unavailable('contentNotKept', { cause: error }));
  }

  protected override endOfContent(): void {
    if (this.#content === null) throw new Failure('fileEmpty');
    void this.#accept(this.#content, null);
  }

  protected override fetchUrl(url: string): void {
    this.#parts.accepted.checkUrl(url);
    this.sentUrl = url;
    void this.#accept(this.#begin(), url);
  }

  async #accept(content: ArrivingContent, url: string | null): Promise<void> {
    this.isWhole = true;
    this.endReceiving();
    // From here on it is scanned, also when the client has left.
    this.enter('recording');
    try {
      const shown = this.#name(url);
      const sha256 = await content.keep();
      if (this.isDecided) return;
      this.#leave();
      this.sha256 = url === null ? sha256 : null;
      this.wholeBytes = url === null ? content.sizeBytes : null;
      const pending = this.#pending(shown, url);
      // What becomes of it is decided there.
      this.#content = null;
      const [, keyName] = await Promise.all([this.#parts.accepted.accept(pending, content), this.#keyName()]);
      this.isDecided = true;
      this.enter('answered');
      await this.#answerWith(pending, keyName);
    } catch (error) {
      this.fail(error);
    }
  }

  #name(url: string | null): ShownName {
    const shown =
      url === null ? { filename: this.filename, extension: extensionOf(this.filename) } : nameFromUrl(new URL(url));
    this.filename = shown.filename;
    this.extension = shown.extension;
    return shown;
  }

  #pending({ filename }: ShownName, url: string | null): PendingScan {
    const { scanId, account: userId, keyId, wholeBytes: sizeBytes, sha256, metadata, policy, quota } = this;
    if (scanId === null || quota === null) throw new Error('A scan that was not admitted is accepted');
    const windowStartSeconds = quota.resetEpochSeconds - 3600;
    const env = this.#parts.accepted.appEnv;
    return { id: scanId, userId, keyId, filename, sizeBytes, sha256, metadata, url, env, windowStartSeconds, policy };
  }

  async #keyName(): Promise<string | null> {
    // Its scan is accepted whether or not the name is found.
    return this.keyId === null ? null : await this.#parts.nameOfKey(this.account, this.keyId).catch(() => null);
  }

  async #answerWith(pending: PendingScan, keyName: string | null): Promise<void> {
    const reply = acceptedReply(this, pending, keyName);
    await this.keep(reply);
    if (!this.isGone) this.send(reply);
  }

  override onGone(reason: Error): void {
    if (this.isWhole) this.isGone = true;
    else super.onGone(reason);
  }

  protected override fail(problem: unknown): void {
    if (this.isDecided) return;
    const isTooLarge = problem instanceof Failure && problem.code === 'fileTooLarge';
    // The disk may still be at it: until that is over it has its place.
    const dropped = this.#content?.drop() ?? Promise.resolve();
    dropped.catch((error: unknown) => this.tellOf(error)).then(() => this.#leave());
    super.fail(isTooLarge ? new Failure('acceptedTooLarge', limitText(this.limitBytes)) : problem);
  }
}
