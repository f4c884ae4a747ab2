// Accepted scans of one process: taken in with their content, scanned behind, taken over from processes that died, and given up where their node is gone.
import { messageOfError } from '../../error-text.js';
import { Unavailable, unavailableTable } from '../../errors.js';
import type { History } from '../../history/history.js';
import {
  type PendingScan as Accepted,
  NODE_SEEN_MS,
  type PendingScans,
  rowWithoutVerdict,
} from '../../history/pending-scans.js';
import type { ArrivingContent, ContentStore, LeftContents } from './content-store.js';
import { Runner, type RunnerOptions } from './runner.js';
import type { SealedOwner } from './sealed-file.js';

interface AcceptedScansOptions extends Omit<RunnerOptions, 'table' | 'read'> {
  readonly table: PendingScans;
  readonly store: ContentStore;
  readonly history: Pick<History, 'append' | 'find' | 'onEnded'>;
}

/** Of one process: scans that were accepted and are not known to be in the history, and their contents on its disk. */
export interface AcceptedState {
  readonly waiting: number;
  readonly bytes: number;
  readonly oldestAgeMs: number;
}

export type AcceptedScans = ReturnType<typeof startAcceptedScans>;

/** What dead processes have left is looked for so often. */
const ADOPT_MS = 3_000;
/** A row of this node's without a content: its process died while the database was at it, or the disk was lost. */
const ORPHAN_AGE_MS = 600_000;
const UNAVAILABLE = 503;

export function startAcceptedScans(options: AcceptedScansOptions) {
  const { table, store, history, limitBytes, scans, onProblem } = options;
  const runner = new Runner({ ...options, read: (id) => store.read(id) });
  const unaccepted = new Unaccepted(table);
  const { takeOver, ended, sayAgain, lookAround } = createUpkeep(options, runner);
  let work: Promise<void> = Promise.resolve();
  let isStopping = false;

  history.onEnded((ids) => {
    ended(ids);
    for (const id of ids) {
      runner.done(id);
      store.remove(id).catch((error: unknown) => onProblem(`A content stays on the disk: ${messageOfError(error)}`));
    }
  });

  /** One after the other; what fails is tried again next time. */
  function behind(step: () => Promise<void>): void {
    if (isStopping) return;
    work = work.then(step).catch((error: unknown) => onProblem(`Accepted scans: ${messageOfError(error)}`));
  }

  function upkeep(): void {
    for (const step of [takeOver, sayAgain, () => unaccepted.remove()]) behind(step);
  }

  behind(takeOver);
  behind(lookAround);
  const timers = [setInterval(upkeep, ADOPT_MS), setInterval(() => behind(lookAround), NODE_SEEN_MS)];
  for (const timer of timers) timer.unref();

  return {
    limitBytes,
    appEnv: scans.appEnv,
    checkUrl: scans.downloads.check,
    state(): AcceptedState {
      const { size, oldestMs } = runner;
      return {
        waiting: size,
        bytes: store.bytes,
        oldestAgeMs: oldestMs === null ? 0 : Math.max(0, Date.now() - oldestMs),
      };
    },
    /** Does the work that has a content arrive when there is a place for it. Rejects with Failure `unavailable`. */
    inTurn: (account: string, work: () => Promise<void>): Promise<void> => store.inTurn(account, work),
    /** Throws Failure `unavailable`. */
    begin: (id: string, account: string, owner: SealedOwner): ArrivingContent => store.begin(id, account, owner),
    /** Its content is on the disk. Rejects with Failure `unavailable` where it is not accepted. */
    async accept(scan: Accepted, content: ArrivingContent): Promise<void> {
      try {
        if (isStopping) throw new Unavailable('stopping');
        await table.add(store.nodeId, scan);
      } catch (error) {
        // It may be there in spite of this. If this process can't take it away, the next one scans it; the client has its unit back.
        unaccepted.add(scan.id, content);
        behind(() => unaccepted.remove());
        throw error;
      }
      runner.add(scan);
    },
    async stop(): Promise<void> {
      isStopping = true;
      for (const timer of timers) clearInterval(timer);
      await work;
      await runner.stop();
      await store.close();
    },
  };
}

function createUpkeep({ table, store, history, giveBack, onProblem }: AcceptedScansOptions, runner: Runner) {
  /** Taken over, while the database hasn't said yet what they are. */
  const unknown: LeftContents = new Map();
  /** The database knows that this node lives. */
  let isSeen = false;
  /** Nodes that were gone at the last look. Where only the database was away, or its clock was set, they have said by the next one that they live. */
  let goneBefore: ReadonlySet<string> = new Set();

  async function sayThatItLives(): Promise<void> {
    isSeen = false;
    await table.nodeSeen(store.nodeId);
    isSeen = true;
  }

  /** There won't be a verdict. */
  async function giveUp(scan: Accepted, error: string): Promise<void> {
    if (await table.claimReturn(scan.id)) await giveBack(scan.userId, scan.windowStartSeconds, scan.keyId);
    history.append({
      row: () => rowWithoutVerdict(scan, UNAVAILABLE, error, Date.now()),
      onRecorded: () => undefined,
      onUnrecorded: (reason) => onProblem(`A scan that was given up is tried again: ${reason.message}`),
    });
  }

  return {
    async takeOver(): Promise<void> {
      await store.adopt(unknown);
      if (unknown.size === 0) return;
      const left = await table.left([...unknown.keys()]);
      const rows = new Map(left.map((scan) => [scan.id, scan]));
      // Not those that have ended while the database answered.
      for (const [id, bytes] of unknown) {
        const scan = rows.get(id);
        if (scan === undefined) await store.remove(id);
        else {
          store.keep(id, scan.userId, bytes);
          // Its row is on the way already, from the journal.
          if (history.find(scan.userId, id) === null) runner.add(scan);
        }
        unknown.delete(id);
      }
    },
    /** They have their verdicts, from the journal of a process that died. */
    ended(ids: readonly string[]): void {
      for (const id of ids) unknown.delete(id);
    },
    /** As soon as it can where it could not when it was due. */
    async sayAgain(): Promise<void> {
      if (!isSeen) await sayThatItLives();
    },
    /** That this node lives, and scans that nobody will do. */
    async lookAround(): Promise<void> {
      await sayThatItLives();
      const gone = await table.goneNodes();
      const stillGone = gone.filter((nodeId) => goneBefore.has(nodeId));
      goneBefore = new Set(gone);
      for (const scan of await table.ofGoneNodes(stillGone))
        await giveUp(scan, 'The node that had accepted the scan is gone');
      const old = await table.ofNode(store.nodeId, Date.now() - ORPHAN_AGE_MS);
      const lost = old.filter(({ id }) => !store.isAnywhere(id));
      for (const scan of lost) await giveUp(scan, unavailableTable.contentLost.text);
    },
  };
}

export class Unaccepted {
  readonly #table: Pick<PendingScans, 'remove'>;
  readonly #contents = new Map<string, Pick<ArrivingContent, 'drop'>>();

  constructor(table: Pick<PendingScans, 'remove'>) {
    this.#table = table;
  }

  add(id: string, content: Pick<ArrivingContent, 'drop'>): void {
    this.#contents.set(id, content);
  }

  /** Rejects while the database or the disk fails: those that are left are for the next time. */
  async remove(): Promise<void> {
    for (const [id, content] of this.#contents) {
      await this.#table.remove(id);
      await content.drop();
      this.#contents.delete(id);
    }
  }
}
