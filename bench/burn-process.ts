// Takes a share of a core, and nothing of the server, until its standard input ends: what an attack is compared with that has the same cores.
import { performance } from 'node:perf_hooks';

const PERIOD_MS = 10;

const share = Number(process.argv[2]);

function burn(): void {
  const startedMs = performance.now();
  const { user } = process.cpuUsage();
  while (process.cpuUsage().user - user < share * PERIOD_MS * 1000);
  setTimeout(burn, Math.max(0, PERIOD_MS - (performance.now() - startedMs)));
}

burn();
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
