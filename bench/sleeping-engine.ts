// A preload (node --import FILE?ms=MILLISECONDS) of `npm run bench:cores`: scan threads sleep so long for each content in the place of ClamAV's look, and
// call it clean. Nothing of the service knows of it: who may set NODE_OPTIONS runs what he likes anyway.
import { constants } from 'node:os';
import { TYPES } from '../src/engine/clamav/addon.js';
import { addonPath } from '../src/paths.js';

/** What is replaced of the addon, and what stays. */
interface Exports {
  scanPlain(content: Uint8Array): number;
  engineInfo(): { readonly epoch: number } | null;
}

const sleepMs = Number(new URL(import.meta.url).searchParams.get('ms'));
const never = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
let epoch: number | undefined;

const load = process.dlopen;
process.dlopen = (module: { exports: Exports }, path, flags = constants.dlopen.RTLD_LAZY): void => {
  load.call(process, module, path, flags);
  if (path !== addonPath) return;
  const { exports } = module;
  exports.scanPlain = () => {
    Atomics.wait(never, 0, 0, sleepMs);
    // The bench never loads signatures twice.
    epoch ??= exports.engineInfo()?.epoch ?? 0;
    // Of no type.
    return epoch * TYPES;
  };
};
