// Takes the units that one user asks for in one turn of the event loop in one step. Half of the cost of a step is the same for any number.
import { z } from 'zod';
import type { Count, LedgerAnswer } from './ledger.js';

export interface TakeBatcher {
  /** Takes one unit; rejects with what the step rejects with. */
  take(userId: string, keyHash: string | null): Promise<LedgerAnswer>;
}

/** Runs the script that takes `units`, and returns its reply. */
export type TakeStep = (userId: string, keyHash: string | null, units: number) => Promise<unknown>;

interface Waiting {
  readonly resolve: (answer: LedgerAnswer) => void;
  readonly reject: (error: unknown) => void;
}

interface Group {
  readonly userId: string;
  readonly keyHash: string | null;
  readonly waiting: Waiting[];
}

const refusedReply = z.union([z.literal(2), z.literal(3)]);
const countedReply = z.tuple([z.int().min(0), z.int(), z.int(), z.int(), z.int(), z.int()]);

/** `together` lets the steps that are begun in it travel as one. */
export function createTakeBatcher(step: TakeStep, together: (send: () => void) => void): TakeBatcher {
  let groups = new Map<string, Group>();

  function sendAll(): void {
    const sent = [...groups.values()];
    groups = new Map();
    together(() => sent.forEach(send));
  }

  function send({ userId, keyHash, waiting }: Group): void {
    step(userId, keyHash, waiting.length)
      .then((reply) => answersOf(reply, waiting.length))
      .then(
        (answerOf) => {
          for (const [index, { resolve }] of waiting.entries()) resolve(answerOf(index));
        },
        (error: unknown) => {
          for (const { reject } of waiting) reject(error);
        },
      );
  }

  return {
    take(userId, keyHash) {
      return new Promise((resolve, reject) => {
        if (groups.size === 0) setImmediate(sendAll);
        const name = `${userId} ${keyHash ?? ''}`;
        const group = groups.get(name);
        if (group === undefined) groups.set(name, { userId, keyHash, waiting: [{ resolve, reject }] });
        else group.waiting.push({ resolve, reject });
      });
    },
  };
}

/** The hour as the script sees it when it is asked for no unit; null: it doesn't know the user. */
export function hourOf(reply: unknown): Omit<Count, 'kind'> | null {
  if (!Array.isArray(reply)) return null;
  const [, limit, counted, direct, windowStartSeconds, nowSeconds] = countedReply.parse(reply);
  return { limit, counted, direct, windowStartSeconds, nowSeconds };
}

/** The first request is served first, and each one sees the count after its own unit. */
function answersOf(reply: unknown, asked: number): (index: number) => LedgerAnswer {
  if (!Array.isArray(reply)) {
    const kind = refusedReply.parse(reply) === 3 ? 'revoked' : 'missing';
    return () => ({ kind });
  }
  const [taken, limit, countedAfter, direct, windowStartSeconds, nowSeconds] = countedReply.parse(reply);
  if (taken > asked) throw new Error(`${taken} units were taken, ${asked} asked for`);
  return (index) => {
    const isTaken = index < taken;
    const counted = isTaken ? countedAfter - taken + index + 1 : countedAfter;
    return { kind: isTaken ? 'taken' : 'exhausted', limit, counted, direct, windowStartSeconds, nowSeconds };
  };
}
