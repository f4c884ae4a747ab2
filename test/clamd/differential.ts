// The same session to clamd and to ours, with the same signatures: the same bytes, but for what docs/clamd.md lists.
import type { NetConnectOpts } from 'node:net';
import { wholeNumbers } from '../fixtures/random.js';
import { ask, sorted } from './client.js';
import { type Session, sessionOf } from './sessions.js';
import { CLAMD_TRIES, type Theirs } from './theirs.js';

export interface Difference {
  readonly seed: number;
  readonly session: Session;
  readonly theirs: readonly string[];
  readonly ours: string;
}

export interface Sides {
  readonly theirs: Theirs;
  readonly ours: readonly NetConnectOpts[];
}

/** At a time. */
const CLIENTS = 8;

/** The exceptions, each with its row in docs/clamd.md: what differs is written alike on both sides. */
function withoutExceptions(answer: string): string {
  return answer
    .replace(/POOLS: 1\n\nSTATE: VALID PRIMARY\nTHREADS: .*?\nEND(?=[\n\0]|$)/gs, '(STATS)')
    .replace(/COMMANDS: [A-Z ]+/g, '(COMMANDS)');
}

async function answerOf(theirs: Theirs, session: Session): Promise<string> {
  return sorted(withoutExceptions(await theirs.ask(session.bytes, session)));
}

const REFUSED =
  /^(?:\d+: )?(?:Only nCMDS\\n and zCMDS\\0 are accepted inside IDSESSION\. ERROR|Error processing command\. ERROR)$/;

/**
 * clamd takes an old command in a session for one only where a packet begins with it, and otherwise waits for more. Outside of a session it answers
 * a second command, or doesn't.
 */
function withoutRefusals(answer: string): string {
  return answer
    .split('|')
    .filter((line) => !REFUSED.test(line))
    .join('|');
}

/** A session that breaks off, or is refused: clamd may throw away what it has not answered yet, ours answers everything. */
function hasAllOf(theirs: string, ours: string): boolean {
  const left = ours.split('|');
  for (const line of theirs.split('|')) {
    const at = left.indexOf(line);
    if (at === -1) return false;
    left.splice(at, 1);
  }
  return left.every((line) =>
    /^\d+: (?:stream: OK|stream: \S+ FOUND|PONG|ClamAV .*|\(STATS\)|.*: File path check failure: .*)$/.test(line),
  );
}

function isBrokenOff({ bytes }: Session, ours: string): boolean {
  return !/[nz]END[\n\0]/.test(bytes.toString('latin1')) || /(?:^|\|)\d+: [A-Z].* ERROR$/.test(ours);
}

function isAlike(session: Session, theirs: string, ours: string): boolean {
  const [one, other] = [withoutRefusals(theirs), withoutRefusals(ours)];
  // It breaks sessions off by itself, too, where the client ends while a scan runs.
  const isBroken = isBrokenOff(session, ours) || theirs.includes('Error processing command');
  return one === other || (isBroken && hasAllOf(one, other));
}

async function compare({ theirs, ours }: Sides, seed: number): Promise<Difference | null> {
  const session = sessionOf(wholeNumbers(seed));
  const expected = [await answerOf(theirs, session)];
  for (const to of ours) {
    const answer = sorted(withoutExceptions(await ask(to, session.bytes, session)));
    const isExpected = (): boolean => expected.some((one) => isAlike(session, one, answer));
    for (let left = CLAMD_TRIES; left > 0 && !isExpected(); left -= 1) {
      expected.push(await answerOf(theirs, session));
    }
    if (!isExpected()) return { seed, session, theirs: [...new Set(expected)], ours: answer };
  }
  return null;
}

/** Of the sessions of the numbers from `first` on. */
export async function differences(
  sides: Sides,
  { first, count }: { readonly first: number; readonly count: number },
): Promise<Difference[]> {
  const found: Difference[] = [];
  let next = first;
  const client = async (): Promise<void> => {
    while (next < first + count) {
      const seed = next;
      next += 1;
      const difference = await compare(sides, seed);
      if (difference !== null) found.push(difference);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return found.toSorted((one, other) => one.seed - other.seed);
}

export function shown({ seed, session, theirs, ours }: Difference): string {
  const text = JSON.stringify(session.bytes.toString('latin1'));
  return [
    `session ${seed}, pieces of ${session.piece} bytes: ${text.slice(0, 600)}`,
    ...theirs.map((answer) => `  clamd: ${JSON.stringify(answer)}`),
    `  ours:  ${JSON.stringify(ours)}`,
  ].join('\n');
}
