// Debian's clamd with our own or another database. Under sessions that break off it damages its own memory now and then (seen: "malloc(): unaligned
// fastbin chunk detected") and ends, or hangs: another one takes its place, and what was asked meanwhile is asked again.
import { type Clamd, type ClamdOptions, startClamd } from '../fixtures/clamd.js';
import { type AskOptions, ask } from './client.js';

/** It answers a client that has half closed, or that goes on after its answer, once so and once so. */
export const CLAMD_TRIES = 12;
/** Now and then it forgets a session. */
const PATIENCE_MS = 3_000;
/** A session that ends every clamd can't be compared. */
const LIVES = 20;

export interface Theirs {
  ask(bytes: Buffer, options?: Omit<AskOptions, 'patienceMs'>): Promise<string>;
  /** How many have ended, or hung. */
  readonly lost: number;
  stop(): Promise<void>;
}

export async function startTheirs(options: ClamdOptions): Promise<Theirs> {
  let lost = 0;
  let current = Promise.resolve(await startClamd(options));

  async function replace(dead: Clamd): Promise<Clamd> {
    await dead.stop();
    return startClamd(options);
  }

  return {
    async ask(bytes, askOptions) {
      for (let left = LIVES; left > 0; left -= 1) {
        const asked = current;
        const clamd = await asked;
        const patient = { ...askOptions, patienceMs: PATIENCE_MS };
        const answer = await ask({ path: clamd.socketPath }, bytes, patient).catch(() => null);
        // It may have ended, or hung, within the answer.
        if (answer !== null && (await clamd.answersPing())) return answer;
        if (asked === current) {
          lost += 1;
          current = replace(clamd);
        }
      }
      throw new Error(`clamd ends at ${JSON.stringify(bytes.toString('latin1').slice(0, 600))}`);
    },
    get lost() {
      return lost;
    },
    async stop() {
      const clamd = await current;
      await clamd.stop();
    },
  };
}
