// A script that Redis runs. Apart from the driver, which is read only where there is a Redis: the rooms that write scripts are read in any case.
import { createHash } from 'node:crypto';

export interface Script {
  readonly text: string;
  /** What EVALSHA knows it by. */
  readonly sha1: string;
}

export function script(text: string): Script {
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}
