// A script of Redis, without the driver, which most servers never read.
import { createHash } from 'node:crypto';

export interface Script {
  readonly text: string;
  /** What EVALSHA knows it by. */
  readonly sha1: string;
  /** What its key is in Redis. */
  readonly type: 'hash' | 'string';
}

export function script(text: string, type: Script['type'] = 'hash'): Script {
  return { text, sha1: createHash('sha1').update(text).digest('hex'), type };
}
