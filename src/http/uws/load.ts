// uWebSockets.js as it can be had here; sole loader of its packages. None is on npm by its authors: what is there are repacks of their binaries.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { messageOfError } from '../../error-text.js';
import { HTTP_HEADER_BLOCK_BYTES } from '../../limits.js';
import { fetchedUwsDirectory, installedUwsDirectory } from '../../paths.js';
import type { UwsModule } from './api.js';

export interface LoadedUws {
  readonly library: UwsModule;
  /** Its package, with the version. */
  readonly title: string;
}

interface Candidate {
  readonly directory: string;
  readonly specifier: string;
}

/** An operator's own build is installed by the name of the first one and wins; the second one is for Nodes that the first has none for. */
const candidates: readonly Candidate[] = [
  { directory: installedUwsDirectory, specifier: 'uWebSockets.js' },
  { directory: fetchedUwsDirectory, specifier: pathToFileURL(join(fetchedUwsDirectory, 'uws.js')).href },
];

const descriptionShape = z.object({ name: z.string(), version: z.string() });

/** Resolves with the first that loads, or with what is wrong with each. */
export async function loadUws(
  from: readonly Candidate[] = candidates,
): Promise<LoadedUws | { readonly problems: readonly string[] }> {
  // Read by the library when it is loaded.
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] = String(HTTP_HEADER_BLOCK_BYTES);
  const problems: string[] = [];
  for (const { directory, specifier } of from) {
    if (!existsSync(directory)) continue;
    const title = titleOf(directory);
    try {
      const imported: unknown = await import(specifier);
      return { library: readModule(imported), title: `uWebSockets.js (${title})` };
    } catch (error) {
      problems.push(`${title}: ${messageOf(error)}`);
    }
  }
  return { problems };
}

/** Builds come as modules of both kinds. Throws when it is something else. */
function readModule(imported: unknown): UwsModule {
  const inner = typeof imported === 'object' && imported !== null && 'default' in imported ? imported.default : null;
  const found = [imported, inner].find(isModule);
  if (found === undefined) throw new Error('it is not uWebSockets.js');
  const app = found.App();
  const canAdopt = 'adoptSocket' in app;
  app.close();
  if (!canAdopt) throw new Error('it has no adoptSocket: it is too old');
  return found;
}

function isModule(value: unknown): value is UwsModule {
  if (typeof value !== 'object' || value === null) return false;
  const names = ['App', 'us_listen_socket_close', 'us_socket_local_port'];
  return names.every((name) => name in value && typeof Reflect.get(value, name) === 'function');
}

function titleOf(directory: string): string {
  const { name, version } = descriptionShape.parse(JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')));
  return `${name} ${version}`;
}

/** The packages' own words, which end in the system's: only these differ. */
function messageOf(error: unknown): string {
  const lines = messageOfError(error).split('\n');
  return lines.findLast((line) => line.trim() !== '') ?? '';
}
