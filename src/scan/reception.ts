// One content on its way into lent memory, wherever its bytes come from: the source is held while there is no room for what has arrived.
import { type Content, createBody } from './body.js';
import type { Lease, UploadMemory } from './memory/memory.js';

/** Content that is whole, in memory that its owner gives back. */
export interface Received {
  readonly content: Content;
  readonly lease: Lease;
}

/** Where the bytes come from. Its deadline stands still while it is held. */
export interface Source {
  hold(): void;
  goOn(): void;
}

export interface ReceptionOptions {
  readonly memory: Pick<UploadMemory, 'open'>;
  /** Whose memory it is. */
  readonly account: string;
  /** What the content may have at most. */
  readonly limitBytes: number;
  readonly source: Source;
  /** Called once at most. */
  readonly onWhole: (received: Received) => void;
  /** Called once at most: the memory is given back by then. */
  readonly onFailed: (reason: unknown) => void;
}

/** After any end nothing more happens: bytes that still arrive are dropped. */
export interface Reception {
  /** Runs a step that takes bytes up, and holds the source when there is no room for them. What the step throws is the end. */
  step(act: () => void): void;
  /** To be called within a step. Throws Failure `fileTooLarge`. */
  append(bytes: Uint8Array): void;
  /** All bytes have come. To be called within a step. Throws Failure `fileEmpty`. */
  end(): void;
  fail(reason: unknown): void;
  /** There is no content after all: gives the memory back. False: it has ended already. */
  drop(): boolean;
}

export function openReception({ memory, account, limitBytes, source, onWhole, onFailed }: ReceptionOptions): Reception {
  let isOver = false;
  let isWhole = false;
  const lease = memory.open(account, limitBytes, { room: () => attempt(takeUp), refused: fail });
  const body = createBody(lease);

  function drop(): boolean {
    if (isOver) return false;
    isOver = true;
    lease.release();
    return true;
  }
  function fail(reason: unknown): void {
    if (drop()) onFailed(reason);
  }
  function attempt(act: () => void): void {
    if (isOver) return;
    try {
      act();
    } catch (error) {
      fail(error);
    }
  }
  function takeUp(): void {
    body.takeUp();
    if (isWhole) finish();
    else source.goOn();
  }
  function finish(): void {
    const content = body.finish();
    isOver = true;
    onWhole({ content, lease });
  }

  return {
    step: (act) =>
      attempt(() => {
        act();
        if (!isOver && body.isWaiting()) source.hold();
      }),
    append: body.append,
    end() {
      isWhole = true;
      if (!body.isWaiting()) finish();
    },
    fail,
    drop,
  };
}
