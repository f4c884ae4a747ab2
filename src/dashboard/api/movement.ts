// Whether something that was sent still moves. No browser says it of a line that broke in silence, or of a server that hangs.
import { isThere } from './reachability.ts';

/** So long nothing is sent, or nothing answered, until that is said. */
const STILL_MS = 30_000;
/** Until it is given up: longer than the service gives an upload, and then its scan, by itself. */
const GIVE_UP_MS = 300_000;

interface MovementEvents {
  /** The server is there, and still nothing moves. */
  readonly onStill: () => void;
  /** There is no server, or it has had its time. */
  readonly onLost: (isAway: boolean) => void;
}

export interface Movement {
  /** Something was sent. */
  go(): void;
  end(): void;
}

export function watchMovement({ onStill, onLost }: MovementEvents): Movement {
  let timer: number | undefined;
  /** Of what is waited for. A page that was frozen for an hour hears of its timers before it hears of what came meanwhile. */
  let round = 0;

  function end(): void {
    window.clearTimeout(timer);
    round += 1;
  }

  function go(): void {
    end();
    timer = window.setTimeout(look, STILL_MS);
  }

  async function look(): Promise<void> {
    const asked = round;
    const isAway = !(await isThere());
    if (asked !== round) return;
    if (isAway) {
      onLost(true);
      return;
    }
    timer = window.setTimeout(() => onLost(false), GIVE_UP_MS - STILL_MS);
    onStill();
  }

  go();
  return { go, end };
}
