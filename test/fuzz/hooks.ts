// A hook of Node's loader: the modules of dist/src/ come with a counter for each branch and statement.
import type { LoadHook } from 'node:module';
import { fileURLToPath } from 'node:url';
import { createInstrumenter } from 'istanbul-lib-instrument';
import { COUNTERS } from './coverage.js';

const modules = new URL('../../src/', import.meta.url).href;
const instrumenter = createInstrumenter({ esModules: true, coverageVariable: COUNTERS, compact: true });

export const load: LoadHook = async (url, context, next) => {
  const loaded = await next(url, context);
  if (!url.startsWith(modules)) return loaded;
  const source = instrumenter.instrumentSync(String(loaded.source), fileURLToPath(url));
  return { format: 'module', source, shortCircuit: true };
};
