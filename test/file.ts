// One test file in a process of its own, as test/run.ts starts it: `node file.js PATH`. It ends one that has nothing left to do and is still there.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Base, TestBase } from 'tap';

/** Nothing that a file does between two of its tests takes that long, on a busy machine either. */
const IDLE_MS = 60_000;
/** What teardowns may take after the totals. */
const TEARDOWN_MS = 30_000;

/**
 * tap lets a process live for as long as something keeps it alive. A test that fails before its end leaves a server or a connection, and
 * the file would live until its time limit.
 */
function endWhenIdle(): void {
  let timer: NodeJS.Timeout | undefined;
  t.on('idle', () => {
    clearTimeout(timer);
    // What a file waits for before its first test takes as long as it takes.
    if (t.count > 0 && t.results === undefined) timer = setTimeout(endTests, IDLE_MS).unref();
  });
  t.on('complete', () => {
    setTimeout(() => {
      process.stderr.write(`All is over, and these are still open: ${stillOpen()}\n`);
      process.exit(1);
    }, TEARDOWN_MS).unref();
  });
}

function endTests(): void {
  if (!t.idle) return;
  t.fail(`the last test is over, and the process does not end: ${stillOpen()} is open`);
  end();
}

/** tap ends a file with a teardown as soon as no test runs, also one that still waits for a server before its next test: not before all of it was read. */
function endWhenRead(): void {
  t.end = end;
  if (!isEndWanted) return;
  if (t.idle) end();
  else t.on('idle', end);
}

/** An error that nothing has caught is one of the test that runs: those of a file run one after the other. After the last one it ends the process. */
function blameRunning(): void {
  const onUncaught = (error: unknown): void => {
    // A test that listens itself wants to see it.
    if (process.listenerCount('uncaughtException') === 1) running(t).threw(error);
  };
  process.on('uncaughtException', onUncaught);
  t.on('complete', () => process.off('uncaughtException', onUncaught));
}

/** The innermost one. */
function running(test: Base): Base {
  const [inner] = test instanceof TestBase ? test.activeSubtests : [];
  return inner === undefined ? test : running(inner);
}

function stillOpen(): string {
  return process.getActiveResourcesInfo().join(', ');
}

const [, , path] = process.argv;
if (path === undefined) throw new Error('No test file is named');
endWhenIdle();
blameRunning();
const end = t.end.bind(t);
let isEndWanted = false;
t.end = () => {
  isEndWanted = true;
  return t;
};
await import(pathToFileURL(resolve(path)).href);
endWhenRead();
