// Scans on their way into the journal's file: those of one turn of the event loop go with one write, before any of them is answered. At once where the disk is quick, otherwise one write after the other on another thread.
import { setTimeout as delay } from 'node:timers/promises';
import { Unavailable } from '../errors.js';
import { rowEnd, rowStart, type ScanRow, storableRow } from './scan-row.js';
import { appendNow, appendTo, FRAME_MAX_BYTES, type Segment, writeFrame } from './segment.js';
import type { Segments } from './segments.js';

/** What is to be recorded: the scan itself. None of its methods may throw. */
export interface Recorded {
  /** Asked once, while it is appended; it is the journal's own from then on. */
  row(): ScanRow;
  /** The row can't get lost any more by the end of this process. Called in a later turn, one after the other for all rows of a write. */
  onRecorded(): void;
  /** It is nowhere. Called at once, while it is appended, where it wasn't tried. */
  onUnrecorded(error: Unavailable): void;
}

interface IntakeOptions {
  /** Bytes that wait for the database, beyond which rows are refused. */
  readonly limitBytes: number;
  readonly segments: Segments;
  /** So many scans are recorded nowhere. */
  readonly onUnwritten: (error: unknown, scans: number) => void;
  /** The row is in the file, between those bytes. */
  readonly onRow: (segment: Segment, row: ScanRow, fromBytes: number, toBytes: number) => void;
}

/** Scans that wait in memory for the disk. Each is one in flight; more means that the disk has stopped. */
const WAITING_BYTES = 8 * 1024 * 1024;
/** After a write that failed no scan is taken until a trial of the journal's own goes well: nobody's scan is lost for it, and who asks hears how it is. */
const TRY_MS = 1_000;
/** A write that keeps the process waiting for so long says that the disk is busy: for a while another thread waits for it. */
const SLOW_WRITE_MS = 2;
const ASIDE_MS = 1_000;
/** Room for the rows of an ordinary turn. */
const FIRST_BYTES = 4 * FRAME_MAX_BYTES;

export function createIntake(options: IntakeOptions) {
  const { limitBytes, segments } = options;
  /** Of this turn of the event loop. */
  let turn: Turn | null = null;
  /** One that is written, for the next one. */
  let spare: Turn | null = null;
  const aside = createWritesAside(options);

  /** Why a scan would be refused now; null: it would not. */
  function refusal(): Unavailable | null {
    if (aside.isClosed) return refused('The service is stopping');
    const heldBytes = aside.bytes + (turn?.endBytes ?? 0);
    if (heldBytes + segments.waiting.bytes >= limitBytes) return refused('The history journal is full');
    if (heldBytes >= WAITING_BYTES) return refused('The disk of the history journal does not keep up');
    return aside.isFailing ? refused('The history journal can not be written') : null;
  }

  function endTurn(): void {
    const ended = turn;
    turn = null;
    if (ended === null || ended.records.length === 0) return;
    const startedMs = performance.now();
    // The ordinary case: nobody waits, a file is open and the disk is quick.
    const segment = aside.writing === null && startedMs >= aside.untilMs ? segments.open() : null;
    const fromBytes = segment?.endBytes ?? 0;
    const bytes = ended.memory.subarray(0, ended.endBytes);
    const isWritten = segment !== null && appendNow(segment, bytes, ended.records.length);
    const endedMs = performance.now();
    if (endedMs - startedMs > SLOW_WRITE_MS) aside.untilMs = endedMs + ASIDE_MS;
    if (!isWritten) {
      aside.add(ended);
      return;
    }
    aside.isFailing = false;
    tellWritten(options, ended, segment, fromBytes);
    ended.records = [];
    ended.endBytes = 0;
    spare = ended;
  }

  return {
    append(scan: Recorded): void {
      const reason = refusal();
      if (reason !== null) {
        scan.onUnrecorded(reason);
        return;
      }
      if (turn === null) {
        turn = spare ?? new Turn();
        spare = null;
        setImmediate(endTurn);
      }
      try {
        turn.add(scan);
      } catch (error) {
        tellUnwritten(options, error, [scan]);
      }
    },
    refusal,
    isWriting: () => aside.writing !== null,
    /** Takes no more scans, and resolves when those that were taken are written, or have failed. */
    async close(): Promise<void> {
      aside.isClosed = true;
      endTurn();
      await aside.writing;
    },
  };
}

interface WritesAside {
  /** That wait for the other thread, or are with it. */
  bytes: number;
  isFailing: boolean;
  /** The writes that are under way. */
  writing: Promise<void> | null;
  /** Until then the disk counts as busy. */
  untilMs: number;
  /** Nothing more comes, and nothing more is tried. */
  isClosed: boolean;
  add(turn: Turn): void;
}

/** What another thread writes, one write after the other; and after one that failed the trials. */
function createWritesAside(options: IntakeOptions) {
  const { segments } = options;
  let waiting: Turn[] = [];
  let isTrying = false;
  const aside: WritesAside = {
    bytes: 0,
    isFailing: false,
    writing: null,
    untilMs: 0,
    isClosed: false,
    add(turn) {
      waiting.push(turn);
      aside.bytes += turn.endBytes;
      aside.writing ??= writeAll();
    },
  };

  /** One write for all that wait, then one for all that came in the meantime. */
  async function writeAll(): Promise<void> {
    while (waiting.length > 0) {
      const turns = waiting;
      waiting = [];
      try {
        await appendAll(turns);
      } catch (error) {
        aside.isFailing = true;
        if (!isTrying) void tryUntilWritable();
        await segments.discardEmpty();
        const scans = turns.flatMap(({ records }) => records.map(({ scan }) => scan));
        tellUnwritten(options, error, scans);
      }
      for (const { endBytes } of turns) aside.bytes -= endBytes;
    }
    aside.writing = null;
  }

  async function tryUntilWritable(): Promise<void> {
    isTrying = true;
    while (aside.isFailing && !aside.isClosed) {
      await delay(TRY_MS, undefined, { ref: false });
      if (await segments.isWritable()) aside.isFailing = false;
    }
    isTrying = false;
  }

  async function appendAll(turns: readonly Turn[]): Promise<void> {
    const segment = segments.open() ?? (await segments.begin());
    let fromBytes = segment.endBytes;
    const rows = turns.reduce((sum, { records }) => sum + records.length, 0);
    await appendTo(segment, Buffer.concat(turns.map(({ memory, endBytes }) => memory.subarray(0, endBytes))), rows);
    aside.isFailing = false;
    for (const one of turns) {
      tellWritten(options, one, segment, fromBytes);
      fromBytes += one.endBytes;
    }
  }

  return aside;
}

/** A scan is answered when it hears of it: the journal knows all rows of its write by then. */
function tellWritten({ onRow, segments }: IntakeOptions, { records }: Turn, segment: Segment, fromBytes: number): void {
  let atBytes = fromBytes;
  for (const { row, endBytes } of records) {
    onRow(segment, row, atBytes, fromBytes + endBytes);
    atBytes = fromBytes + endBytes;
  }
  segments.arrived();
  for (const { scan } of records) scan.onRecorded();
}

function tellUnwritten({ onUnwritten }: IntakeOptions, error: unknown, scans: readonly Recorded[]): void {
  onUnwritten(error, scans.length);
  for (const scan of scans) scan.onUnrecorded(new Unavailable('notRecorded'));
}

const refused = (text: string): Unavailable => new Unavailable('journalRefuses', { text });

interface TakenScan {
  readonly scan: Recorded;
  readonly row: ScanRow;
  /** Of its record, in the turn's memory. */
  readonly endBytes: number;
}

/** The scans of one turn, and their records behind each other. */
class Turn {
  records: TakenScan[] = [];
  memory = Buffer.allocUnsafe(FIRST_BYTES);
  endBytes = 0;

  add(scan: Recorded): void {
    const row = storableRow(scan.row());
    if (this.memory.length - this.endBytes < FRAME_MAX_BYTES) {
      const larger = Buffer.allocUnsafe(2 * this.memory.length);
      this.memory.copy(larger, 0, 0, this.endBytes);
      this.memory = larger;
    }
    this.endBytes = writeFrame(this.memory, this.endBytes, rowStart(row), rowEnd(row));
    this.records.push({ scan, row, endBytes: this.endBytes });
  }
}
