// The server process: the service with its signals, its fatal errors and its exit codes, under the supervisor or alone.
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import { type Config, readConfig } from '../config.js';
import { createLog, type Log } from '../log.js';
import { type Service, startService } from '../service.js';
import { EXIT_UNAVAILABLE, READY_MESSAGE } from '../supervisor.js';
import { firstStartText, reachableUrl } from './credentials.js';
import { EXIT_CLEAN, EXIT_SIGNAL_BASE, EXIT_SOFTWARE } from './exit-codes.js';

/**
 * Resolves with the exit code once the service has stopped. The stop is asked for by a signal, or by the end of the IPC
 * channel: then the supervisor is gone, and nobody may keep the port.
 */
export async function runServer(env: NodeJS.ProcessEnv): Promise<number> {
  const config = readConfig(env);
  const { log, flush } = createLog(config.logLevel);
  const die = (event: string) => (error: unknown) => {
    log.fatal({ err: error }, event);
    void flush().finally(() => process.exit(EXIT_SOFTWARE));
  };
  process.on('uncaughtException', die('uncaught exception'));
  process.on('unhandledRejection', die('unhandled rejection'));
  // The listeners come first: a stop that arrives during the start must be heard.
  const stop = stopWish(log, flush);
  process.on('SIGUSR2', () => log.info({ ...process.memoryUsage(), uptimeSeconds: process.uptime() }, 'status'));
  try {
    return await serveUntil(stop, config, log);
  } finally {
    await flush();
  }
}

async function serveUntil(stop: Promise<string>, config: Config, log: Log): Promise<number> {
  let service: Service;
  try {
    service = await startService(config, log);
  } catch (error) {
    log.fatal({ err: error }, 'the service could not start');
    return EXIT_UNAVAILABLE;
  }
  if (process.connected) process.send?.(READY_MESSAGE);
  if (service.account !== null) {
    process.stdout.write(firstStartText(service.account, reachableUrl(config, service.port)));
  }
  const onHangUp = (): void => void service.reloadSignatures();
  process.on('SIGHUP', onHangUp);
  log.info({ reason: await stop }, 'stopping');
  process.off('SIGHUP', onHangUp);
  await service.stop();
  log.info('stopped');
  return EXIT_CLEAN;
}

/**
 * Resolves with what asked for the stop. Alone, a second SIGTERM or SIGINT ends the process at once. Under the supervisor
 * it does not: a terminal's Ctrl-C or a service manager signals both of us, and the supervisor passes its own on; it is
 * the one that counts, and kills.
 */
function stopWish(log: Log, flush: () => Promise<void>): Promise<string> {
  // `connected` alone won't do: it is false already when the supervisor died while this program was being read.
  const supervised = process.send !== undefined;
  return new Promise((resolve) => {
    let asked = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (asked && !supervised) {
        log.warn({ signal }, 'second stop signal: exiting at once');
        void flush().finally(() => process.exit(EXIT_SIGNAL_BASE + constants.signals[signal]));
        return;
      }
      asked = true;
      resolve(signal);
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
    // A terminal that goes away sends it too, and is none any more when it arrives: nobody is left to stop us otherwise.
    const onTerminal = isatty(1);
    process.on('SIGHUP', () => {
      if (onTerminal && !isatty(1)) resolve('the terminal is gone');
    });
    const onDisconnect = (): void => resolve('the supervisor is gone');
    process.on('disconnect', onDisconnect);
    if (supervised && !process.connected) onDisconnect();
  });
}
