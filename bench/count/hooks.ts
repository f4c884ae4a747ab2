// Hooks of Node's loader: the modules of dist/src/ come with counters, and none of them from the bundle.
import { readFile } from 'node:fs/promises';
import type { LoadHook, ResolveHook } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bundledProgramPath } from '../../src/paths.js';
import { instrument } from './instrument.js';

const bundle = pathToFileURL(bundledProgramPath).href;
const modules = new URL('../../src/', import.meta.url).href;

export const resolve: ResolveHook = async (specifier, context, next) => {
  const found = await next(specifier, context);
  return found.url === bundle ? { ...found, url: `${modules}cli/program.js` } : found;
};

export const load: LoadHook = async (url, context, next) => {
  if (!url.startsWith(modules)) return await next(url, context);
  const name = url.slice(modules.length);
  const { source } = instrument(name, await readFile(fileURLToPath(url), 'utf8'));
  return { format: 'module', source, shortCircuit: true };
};
