// Which HTTP library serves: the one that the configuration names; otherwise uWebSockets.js where it can be loaded, or node:http, which is slower.
import { nodeLibrary } from './node/serve.js';
import { loadUws } from './uws/load.js';
import { uwsLibrary } from './uws/wire.js';
import type { HttpLibrary } from './wire.js';

export type LibraryChoice = 'auto' | 'uws' | 'node';

/** Rejects with the reasons when the choice is `uws` and it can't be loaded. */
export async function chooseLibrary(choice: LibraryChoice): Promise<HttpLibrary> {
  if (choice === 'node') return nodeLibrary('HTTP_SERVER=node');
  const loaded = await loadUws();
  if ('library' in loaded) return uwsLibrary(loaded);
  if (choice === 'auto') return nodeLibrary(loaded.problems.join('; '));
  throw new Error(`HTTP_SERVER=uws, but uWebSockets.js can't be loaded: ${loaded.problems.join('; ')}`);
}
