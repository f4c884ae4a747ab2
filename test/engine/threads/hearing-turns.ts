// A pool whose scans say that a thread is at them.
import type { ScanPool } from '../../../src/engine/threads/pool.js';
import type { ThreadScan } from '../../../src/engine/threads/thread-scan.js';

type AskedPool = Pick<ScanPool, 'ask' | 'policy'>;

export function hearingTurns(pool: AskedPool, onTurn: (kind: ThreadScan['turn']) => void): AskedPool {
  return {
    policy: pool.policy,
    ask(scan) {
      const { onTurn: own } = scan;
      scan.hearsTurn = true;
      scan.onTurn = () => {
        own.call(scan);
        onTurn(scan.turn);
      };
      pool.ask(scan);
    },
  };
}
