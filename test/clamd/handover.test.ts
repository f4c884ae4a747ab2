// The server process is replaced, and signatures are loaded again, while clients of clamd's protocol and of ICAP come one after the other: each has its answer.
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { freePort } from '../fixtures/free-port.js';
import { until } from '../fixtures/until.js';
import { connect, request, CLEAN as TEXT } from '../icap/client.js';
import { ask, bytesOf, CLEAN, EICAR, EMAIL, startOurs, stream } from './client.js';

const FOUND = 'stream: Sluice.Test.EICAR.UNOFFICIAL FOUND\0';
/** Between an answer and the next question: what they cost is not the subject. */
const PAUSE_MS = 20;

/** Asks again and again. Returns what ends it, which resolves to how often each answer came. */
function steadily(askOnce: () => Promise<string>): () => Promise<Map<string, number>> {
  const answers = new Map<string, number>();
  let isOver = false;
  const running = (async () => {
    while (!isOver) {
      const answer = await askOnce().catch((error: unknown) => String(error));
      answers.set(answer, (answers.get(answer) ?? 0) + 1);
      await delay(PAUSE_MS);
    }
  })();
  return async () => {
    isOver = true;
    await running;
    return answers;
  };
}

t.test('no connection is refused or dropped, and no answer is wrong', async (t) => {
  const icapPort = await freePort();
  const { server, unix, tcp } = await startOurs({
    ICAP_PORT: String(icapPort),
    ICAP_ACCOUNT: EMAIL,
    PLANS: 'LARGE:1000000',
    BOOTSTRAP_PLAN: 'LARGE',
  });
  t.teardown(() => server.stop('SIGKILL'));

  let client = await connect(icapPort);
  const byIcap = async (): Promise<string> => {
    client.write(request({ body: TEXT, preview: 100 }).bytes);
    const { status, headers } = await client.answer();
    if (headers.get('connection') === 'close') {
      client.end();
      client = await connect(icapPort);
    }
    return String(status);
  };
  const session = createConnection(unix);
  t.teardown(() => session.destroy());
  session.write('zIDSESSION\0');
  let pings = 0;
  const inSession = async (): Promise<string> => {
    pings += 1;
    session.write('zPING\0');
    const [answer] = await once(session, 'data');
    return String(answer) === `${pings}: PONG\0` ? 'PONG' : String(answer);
  };
  const ends = [
    steadily(() => ask(unix, bytesOf('zINSTREAM\0', stream(EICAR)))),
    steadily(() => ask(tcp, bytesOf('zINSTREAM\0', stream(CLEAN)))),
    steadily(byIcap),
    steadily(inSession),
  ];
  const before = server.serverPid();
  process.kill(server.pid, 'SIGUSR2');
  await server.printed(/"msg":"(replaced)"/);
  t.not(server.serverPid(), before, 'new connections are for another process');
  process.kill(server.pid, 'SIGHUP');
  await until(async () => (await ask(tcp, bytesOf('zPING\0'))) === 'PONG\0');
  const seen = await Promise.all(ends.map((end) => end()));
  client.end();
  t.comment(JSON.stringify(seen.map((answers) => [...answers])));
  t.strictSame(
    seen.map((answers) => [...answers.keys()]),
    [[FOUND], ['stream: OK\0'], ['204'], ['PONG']],
  );
  session.end('zEND\0');
  t.equal(await server.stop(), 0);
});
