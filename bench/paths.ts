// Where the bench's own files lie: C sources in bench/, what is built from them in dist/bench/.
import { fileURLToPath } from 'node:url';

// This file is dist/bench/paths.js when it runs.
const sources = new URL('../../bench/', import.meta.url);
const built = new URL('./', import.meta.url);

export const projectRoot = fileURLToPath(new URL('../../', import.meta.url));

export function sourcePath(name: string): string {
  return fileURLToPath(new URL(name, sources));
}

export function builtPath(name: string): string {
  return fileURLToPath(new URL(name, built));
}
