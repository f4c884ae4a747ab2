// Which engine serves in this process. There is one, as in the native layer, and all scan threads use it.
import type { BuiltEngine, Engine } from './engine.js';

let current: Engine | null = null;

/** From here on scans use this engine. Scans that are at a thread end with the one that they began with. */
export function serve({ engine, takePlace }: BuiltEngine): Engine {
  takePlace();
  current = engine;
  return engine;
}

/** Null before the first. */
export function servingNow(): Engine | null {
  return current;
}
