// A server process for the supervisor's tests: each of its runs does what its line of the plan says, and says so on stdout. It loads nothing,
// since the tests start some hundred of them.
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder = '', ...plan] = process.argv.slice(2);
const run = ownRun();
const action = plan[run] ?? 'none';

/** Of two that start at once each has a number of its own. */
function ownRun(): number {
  for (;;) {
    const next = readdirSync(folder).length;
    try {
      writeFileSync(join(folder, String(next)), '', { flag: 'wx' });
      return next;
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    }
  }
}

function say(event: string, more: object = {}): void {
  process.stdout.write(`${JSON.stringify({ event, run, pid: process.pid, ...more })}\n`);
}

/** Without anything else to do the IPC channel's listener keeps the process alive, until it closes. */
function serve(onStop: (signal: string) => void): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR2']) process.on(signal, () => onStop(signal));
  onOrder('reload', () => undefined);
  process.on('disconnect', () => say('disconnected'));
  process.send?.('ready');
  process.send?.({ kind: 'loaded', complete: true });
  say('ready');
}

function stopOn(signal: string): void {
  say(signal);
  if (signal === 'SIGTERM' || signal === 'SIGINT') process.exit(signal === 'SIGTERM' ? 0 : 5);
}

function onOrder(kind: string, act: () => void): void {
  process.on('message', (message) => {
    if (typeof message !== 'object' || message === null || !('kind' in message) || message.kind !== kind) return;
    say(kind, message);
    act();
  });
}

function retire(): void {
  process.send?.({ kind: 'retired' }, () => process.exit(0));
}

const actions: Readonly<Record<string, () => void>> = {
  exit0: () => process.exit(0),
  loads: () => {
    say('loads');
    setInterval(() => undefined, 1_000);
  },
  exit3: () => process.exit(3),
  aborts: () => process.kill(process.pid, 'SIGABRT'),
  exit69: () => process.exit(69),
  exit78: () => process.exit(78),
  killed: () => process.kill(process.pid, 'SIGKILL'),
  segv: () => process.kill(process.pid, 'SIGSEGV'),
  abort: () => process.abort(),
  sandboxed: () => {
    process.kill(process.pid, 'SIGSYS');
    // Under tap's own command every process listens to it, and passes it on a moment later.
    setInterval(() => undefined, 1_000);
  },
  readyThen3: () => process.send?.('ready', () => process.exit(3)),
  servedThen3: () => {
    process.send?.('ready');
    process.send?.({ kind: 'loaded', complete: true }, () => process.exit(3));
  },
  servedThenKilled: () => {
    process.send?.('ready');
    process.send?.({ kind: 'loaded', complete: true }, () => process.kill(process.pid, 'SIGKILL'));
  },
  readyThen69: () => process.send?.('ready', () => process.exit(69)),
  serve: () => serve(stopOn),
  exits0OnReload: () => {
    serve(stopOn);
    onOrder('reload', () => process.exit(0));
  },
  retires: () => {
    serve(stopOn);
    onOrder('retire', retire);
  },
  retiresAndStays: () => {
    serve(stopOn);
    onOrder('retire', () => process.send?.({ kind: 'retired', endsWithinMs: 1e8 }));
  },
  diesOfRetire: () => {
    serve(say);
    onOrder('retire', () => process.exit(3));
  },
  retiresAndHangs: () => {
    serve(say);
    onOrder('retire', () => process.send?.({ kind: 'retired', endsWithinMs: 1 }));
  },
  standsIn: () => {
    serve(stopOn);
    onOrder('retire', retire);
    process.send?.({ kind: 'loaded', complete: false });
    process.send?.({ kind: 'replace', reason: 'test', sha256: null });
  },
  requestsReplacement: () => {
    // The first request at once, the second when it is to read its signatures again.
    const request = (): void => void process.send?.({ kind: 'replace', reason: 'test', sha256: null });
    serve(stopOn);
    onOrder('reload', request);
    onOrder('retire', retire);
    request();
  },
  wantsRestart: () => {
    serve(stopOn);
    onOrder('retire', retire);
    process.send?.({ kind: 'restart', reason: 'test' });
  },
  takesOver: () => {
    say('preparing');
    for (const order of ['start', 'alone', 'retire']) onOrder(order, () => undefined);
    onOrder('serve', () => serve(stopOn));
    process.send?.({ kind: 'prepared' });
  },
  takesOverAndRetires: () => {
    onOrder('retire', retire);
    onOrder('serve', () => serve(stopOn));
    process.send?.({ kind: 'prepared' });
  },
  takesOverSlowly: () => {
    say('preparing');
    onOrder('serve', () => serve(stopOn));
  },
  takesOverSlowlyAndEnds: () => {
    say('preparing');
    onOrder('serve', () => process.exit(0));
  },
  takesOverAndDies: () => {
    onOrder('serve', () => process.exit(3));
    process.send?.({ kind: 'prepared' });
  },
  ignoreSignals: () => serve(say),
  dieOfSignals: () => {
    process.on('message', () => undefined);
    process.send?.('ready');
    say('ready');
  },
};

actions[action]?.();
