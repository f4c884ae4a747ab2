// A process whose main thread serves: it is busy, idle, or starts others, as it is told.
import { spawn } from 'node:child_process';
import { startWaiting, watchServingThread } from '../src/cores.js';

let isBusy = false;

function burn(): void {
  const endMs = performance.now() + 5;
  while (performance.now() < endMs);
  // The event loop goes on, as that of a server does.
  if (isBusy) setImmediate(burn);
}

process.on('message', (order: 'busy' | 'idle' | 'start') => {
  isBusy = order === 'busy' || (isBusy && order === 'start');
  if (order === 'busy') burn();
  if (order !== 'start') return;
  const started = [false, true].map((leavesCore) =>
    startWaiting(() => spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] }), { leavesCore }),
  );
  process.send?.(started.map(({ pid }) => pid));
});
watchServingThread();
