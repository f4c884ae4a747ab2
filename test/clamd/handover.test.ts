// The server process is replaced, and signatures are loaded again, while clients of clamd's protocol and of ICAP ask as fast as they can: each has its answer, and the right one.
import { once } from 'node:events';
import { createConnection, type NetConnectOpts } from 'node:net';
import t from 'tap';
import { freePort } from '../fixtures/free-port.js';
import { type Client, connect } from '../icap/client.js';
import { ask, bytesOf, CLEAN, EICAR, EMAIL, startOurs, stream } from './client.js';

/** Of each way. */
const LANES = 3;

/** Asks again and again, on several lanes. Returns what ends it, which resolves to how often each answer came. */
function steadily(lanes: readonly (() => Promise<string>)[]): () => Promise<Map<string, number>> {
  const answers = new Map<string, number>();
  let isOver = false;
  const running = lanes.map(async (askOnce) => {
    while (!isOver) {
      const answer = await askOnce().catch((error: unknown) => String(error));
      answers.set(answer, (answers.get(answer) ?? 0) + 1);
    }
  });
  return async () => {
    isOver = true;
    await Promise.all(running);
    return answers;
  };
}

let serial = 0;

/** One in four is infected, and no clean one is known. */
function next(): { readonly content: Buffer; readonly isInfected: boolean } {
  serial += 1;
  const isInfected = serial % 4 === 0;
  return { isInfected, content: isInfected ? EICAR : Buffer.concat([CLEAN, Buffer.from(String(serial))]) };
}

function byConnection(place: NetConnectOpts): () => Promise<string> {
  return async () => {
    const { content, isInfected } = next();
    const answer = await ask(place, bytesOf('zINSTREAM\0', stream(content)));
    return answer === (isInfected ? 'stream: Sluice.Test.EICAR.UNOFFICIAL FOUND\0' : 'stream: OK\0') ? 'right' : answer;
  };
}

/** Its connection is kept until an answer says that it was the last. */
function byIcap(port: number): () => Promise<string> {
  let client: Client | null = null;
  return async () => {
    const { content, isInfected } = next();
    client ??= await connect(port);
    const { status, headers } = await client.ask({ body: content, headers: ['Allow: 204'] });
    if (headers.get('connection') === 'close') {
      client.end();
      client = null;
    }
    return status === (isInfected ? 200 : 204) && headers.has('x-virus-id') === isInfected ? 'right' : String(status);
  };
}

t.test('no connection is refused or dropped, and no answer is wrong', async (t) => {
  const icapPort = await freePort();
  const { server, unix, tcp } = await startOurs(
    { ICAP_PORT: String(icapPort), ICAP_ACCOUNT: EMAIL, PLANS: 'LARGE:1000000', BOOTSTRAP_PLAN: 'LARGE' },
    { isSupervised: true },
  );
  t.teardown(() => server.stop('SIGKILL'));
  const session = createConnection(unix);
  t.teardown(() => session.destroy());
  session.write('zIDSESSION\0');
  let pings = 0;
  const inSession = async (): Promise<string> => {
    pings += 1;
    session.write('zPING\0');
    const [answer] = await once(session, 'data');
    return String(answer) === `${pings}: PONG\0` ? 'right' : String(answer);
  };
  const lanesOf = (lane: () => () => Promise<string>) => Array.from({ length: LANES }, lane);
  const began = Date.now();
  const ends = [
    steadily(lanesOf(() => byConnection(unix))),
    steadily(lanesOf(() => byConnection(tcp))),
    steadily(lanesOf(() => byIcap(icapPort))),
    steadily([inSession]),
  ];
  const loaded = (times: number) => server.printed(new RegExp(`(?:"msg":"(signatures loaded)"[\\s\\S]*){${times}}`));
  process.kill(server.pid, 'SIGHUP');
  await loaded(2);
  const before = server.serverPid();
  process.kill(server.pid, 'SIGUSR2');
  await server.printed(/"msg":"(replaced)"/);
  t.not(server.serverPid(), before, 'new connections are for another process');
  t.equal(await ask(unix, bytesOf('zRELOAD\0')), 'RELOADING\0');
  await loaded(4);
  const seen = await Promise.all(ends.map((end) => end()));
  const count = seen.flatMap((answers) => [...answers.values()]).reduce((sum, each) => sum + each, 0);
  t.comment(
    `${Math.round((1000 * count) / (Date.now() - began))} answers a second: ${JSON.stringify(seen.map((each) => [...each]))}`,
  );
  t.strictSame(
    seen.map((answers) => [...answers.keys()]),
    [['right'], ['right'], ['right'], ['right']],
  );
  session.end('zEND\0');
  t.equal(await server.stop(), 0);
});
