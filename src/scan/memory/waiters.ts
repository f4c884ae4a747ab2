// Uploads that wait for memory: the account that has least comes first, in an account the oldest upload; and what ends a wait.
import { type Failure, Unavailable } from '../../errors.js';
import type { Account, Loan } from './loan.js';

export interface WaitingLine {
  readonly length: number;
  /** Uploads that were ended because another account waited for what they held. */
  readonly ended: number;
  /** True: it was served at once, and its borrower is not called back. */
  join(loan: Loan): boolean;
  leave(loan: Loan): void;
  /** Gives what has come free to those whose turn it is. */
  serve(): void;
  /** Of the account; null: of the one that has most. False: none waits. */
  refuseYoungest(account: Account | null): boolean;
}

export interface WaitingLineParts {
  readonly now: () => number;
  readonly tooLong: Failure;
  readonly accounts: ReadonlyMap<string, Account>;
  /** Gives what it needs now, if its account may have that. */
  readonly tryGrow: (loan: Loan) => boolean;
  /** Gives all that it may still need, if the finishing room has it. */
  readonly tryFinish: (loan: Loan) => boolean;
  /** It is others who have what it waits for, not its own account. */
  readonly isHeldUp: (loan: Loan) => boolean;
  /** How many bytes it waits for. */
  readonly stepOf: (loan: Loan) => number;
  readonly relabel: () => void;
}

interface Lanes {
  /** Each with the oldest upload first. */
  readonly small: Loan[];
  readonly large: Loan[];
}

/** How exactly times are kept. */
const TICK_MS = 100;
/** An upload that is held up by accounts with more than its own waits so long for them to end by themselves. */
const PATIENCE_MS = 1_000;

/** Only the functions of this file write to it. */
interface Line {
  readonly parts: WaitingLineParts;
  readonly lanesOf: Map<Account, Lanes>;
  readonly waiting: Set<Loan>;
  timer: NodeJS.Timeout | null;
  ended: number;
}

export function createWaitingLine(parts: WaitingLineParts): WaitingLine {
  const line: Line = { parts, lanesOf: new Map(), waiting: new Set(), timer: null, ended: 0 };
  return {
    get length() {
      return line.waiting.size;
    },
    get ended() {
      return line.ended;
    },
    join(loan) {
      if (line.waiting.has(loan)) return false;
      add(line, loan);
      serve(line, loan);
      return !line.waiting.has(loan);
    },
    leave: (loan) => leave(line, loan),
    serve: () => serve(line, null),
    refuseYoungest: (account) => refuseYoungest(line, account),
  };
}

function add(line: Line, loan: Loan): void {
  const { parts, lanesOf, waiting } = line;
  waiting.add(loan);
  loan.waitingSinceMs = parts.now();
  const lanes = lanesOf.get(loan.account) ?? { small: [], large: [] };
  lanesOf.set(loan.account, lanes);
  const lane = loan.isSmall ? lanes.small : lanes.large;
  const before = lane.findLastIndex(({ number }) => number < loan.number);
  lane.splice(before + 1, 0, loan);
  line.timer ??= setInterval(() => tick(line), TICK_MS);
}

function leave(line: Line, loan: Loan): void {
  const { parts, lanesOf, waiting } = line;
  if (!waiting.delete(loan)) return;
  loan.waitLeftMs -= parts.now() - loan.waitingSinceMs;
  const lanes = lanesOf.get(loan.account);
  if (lanes === undefined) return;
  const lane = loan.isSmall ? lanes.small : lanes.large;
  lane.splice(lane.indexOf(loan), 1);
  if (lanes.small.length + lanes.large.length === 0) lanesOf.delete(loan.account);
  if (waiting.size > 0 || line.timer === null) return;
  clearInterval(line.timer);
  line.timer = null;
}

function poorestFirst({ lanesOf }: Line): (readonly [Account, Lanes])[] {
  return [...lanesOf].sort(([one], [other]) => bytesOf(one) - bytesOf(other));
}

/** Who is served next, and has been; null: nobody can be. */
function serveOne(line: Line): Loan | null {
  const { parts } = line;
  const order = poorestFirst(line);
  for (const [, lanes] of order) {
    const heads = headsOf(lanes);
    const served = heads.find(parts.tryGrow);
    if (served !== undefined) return served;
    // Those who have more would take what this one waits for.
    if (heads.some(parts.isHeldUp)) break;
  }
  const [first] = order;
  if (first === undefined) return null;
  const oldest = headsOf(first[1]).reduce((one, other) => (one.number < other.number ? one : other));
  return parts.tryFinish(oldest) ? oldest : null;
}

function serve(line: Line, joining: Loan | null): void {
  if (line.waiting.size === 0) return;
  line.parts.relabel();
  const served: Loan[] = [];
  for (let loan = serveOne(line); loan !== null; loan = line.waiting.size === 0 ? null : serveOne(line)) {
    leave(line, loan);
    served.push(loan);
  }
  for (const loan of served) if (loan !== joining) loan.borrower.room();
}

function refuse(line: Line, loan: Loan, reason: Failure): void {
  leave(line, loan);
  loan.borrower.refused(reason);
}

function refuseYoungest(line: Line, account: Account | null): boolean {
  const lanes = account === null ? poorestFirst(line).at(-1)?.[1] : line.lanesOf.get(account);
  if (lanes === undefined) return false;
  const last = [lanes.small.at(-1), lanes.large.at(-1)].filter((loan) => loan !== undefined);
  const youngest = last.reduce((one, other) => (one.number > other.number ? one : other));
  refuse(line, youngest, line.parts.tooLong);
  return true;
}

function tick(line: Line): void {
  const { parts, waiting } = line;
  const nowMs = parts.now();
  for (const loan of [...waiting]) {
    if (waiting.has(loan) && nowMs - loan.waitingSinceMs >= loan.waitLeftMs) refuse(line, loan, parts.tooLong);
  }
  for (const [, lanes] of poorestFirst(line)) {
    for (const loan of headsOf(lanes)) if (nowMs - loan.waitingSinceMs >= PATIENCE_MS) makeRoom(line, loan);
  }
  // Time alone changes what older uploads are expected to need.
  serve(line, null);
}

/** Ends uploads of accounts that have more than its own would have then, until it is served. */
function makeRoom(line: Line, loan: Loan): void {
  const { parts } = line;
  while (line.waiting.has(loan) && parts.isHeldUp(loan)) {
    const costliest = costliestBeyond(parts, bytesOf(loan.account) + parts.stepOf(loan), loan.account);
    if (costliest === null) return;
    line.ended += 1;
    refuse(line, costliest, new Unavailable('memoryNeeded'));
    if (costliest.account.receiving.has(costliest)) throw new Error('A lease was not released');
  }
}

/** Of the account that has most, if that is more than the given bytes: the upload on its way that has kept most for longest. */
function costliestBeyond({ now, accounts }: WaitingLineParts, bytes: number, except: Account): Loan | null {
  const nowMs = now();
  let most = bytes;
  let costliest: Loan | null = null;
  for (const account of accounts.values()) {
    if (account === except || bytesOf(account) <= most) continue;
    let highest = 0;
    for (let loan = account.receiving.first(); loan !== null; loan = loan.behind) {
      const cost = (loan.size + loan.waitingBytes) * (nowMs - loan.beganAtMs);
      if (cost <= highest) continue;
      highest = cost;
      most = bytesOf(account);
      costliest = loan;
    }
  }
  return costliest;
}

function bytesOf({ sharedBytes, finishingBytes }: Account): number {
  return sharedBytes + finishingBytes;
}

/** Small ones first: they find room that is kept for them. */
function headsOf({ small, large }: Lanes): Loan[] {
  return [small[0], large[0]].filter((loan) => loan !== undefined);
}
