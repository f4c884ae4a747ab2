// A script of Redis, without the driver, which most servers never read.
import { createHash } from 'node:crypto';

export interface Script {
  readonly text: string;
  /** What EVALSHA knows it by. */
  readonly sha1: string;
}

export function script(text: string): Script {
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}
