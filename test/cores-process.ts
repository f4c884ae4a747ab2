// A process with a serving thread. The test tells it to be busy, to be idle, to start other processes, or to have no descriptor left for a while.
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { startWaiting, watchServingThread } from '../src/cores.js';

/** As often as the thread is looked at, and more often than it takes to give the core back. */
const TURN_MS = 100;
const TURNS = 10;

let isBusy = false;

function burn(): void {
  const endMs = performance.now() + 5;
  while (performance.now() < endMs);
  // The event loop goes on, as that of a server does.
  if (isBusy) setImmediate(burn);
}

function startOthers(): void {
  const started = [false, true].map((leavesCore) =>
    startWaiting(() => spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] }), { leavesCore }),
  );
  process.send?.(started.map(({ pid }) => pid));
}

/** Tells how many there were, when there has been none for so many turns of a timer. */
function exhaustDescriptors(): void {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    // There are none.
  }
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
    if (turns < TURNS) return;
    clearInterval(timer);
    for (const descriptor of taken) closeSync(descriptor);
    process.send?.(taken.length);
  }, TURN_MS);
}

process.on('message', (order: 'busy' | 'idle' | 'start' | 'use up') => {
  if (order === 'start') startOthers();
  else if (order === 'use up') exhaustDescriptors();
  else {
    isBusy = order === 'busy';
    if (isBusy) burn();
  }
});
// What a thread has of a core at least that never rests, on a machine that is busy with other tests.
watchServingThread({ busy: 0.15, notBusy: 0.05 });
