// Clients that connect anew for each request, while the service stops: whoever has connected is answered, and all others are refused.
import { connect } from 'node:net';
import t from 'tap';
import { freePort } from '../fixtures/free-port.js';
import { startServer } from '../fixtures/server.js';
import { EMAIL } from '../fixtures/sign-in.js';

const CLIENTS = 4;

/** What became of one connection: its answer, or why there is none. */
function attempt(port: number, question: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    let isConnected = false;
    socket.once('connect', () => {
      isConnected = true;
      socket.write(question);
    });
    socket.setEncoding('latin1').on('data', (text: string) => {
      answer += text;
    });
    socket.once('error', () => undefined);
    socket.once('close', () => resolve(isConnected ? answer : 'refused'));
  });
}

/** Connects again and again until it is refused; resolves with all different answers. */
async function untilRefused(port: number, question: string, onAnswer: () => void): Promise<ReadonlySet<string>> {
  const answers = new Set<string>();
  for (;;) {
    const answer = await attempt(port, question);
    if (answer === 'refused') return answers;
    answers.add(answer);
    onAnswer();
  }
}

t.test('a stop answers whoever has connected, by HTTP and by clamd’s protocol', async (t) => {
  const clamdPort = await freePort();
  const server = await startServer({
    isSupervised: true,
    env: { CLAMD_PORT: String(clamdPort), CLAMD_ACCOUNT: EMAIL, BOOTSTRAP_EMAIL: EMAIL },
  });
  await server.printed(/"msg":"(clamd's protocol)"/);
  let answered = 0;
  let isWarm: () => void = () => undefined;
  const warm = new Promise<void>((resolve) => {
    isWarm = resolve;
  });
  const onAnswer = (): void => {
    answered += 1;
    if (answered === 100) isWarm();
  };
  const http = 'GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
  const clients = Array.from({ length: CLIENTS }, () => [
    untilRefused(server.port, http, onAnswer),
    untilRefused(clamdPort, 'zPING\0', onAnswer),
  ]).flat();
  await warm;
  t.equal(await server.stop(), 0);
  for (const answers of await Promise.all(clients)) {
    for (const answer of answers) t.match(answer, /^(?:HTTP\/1\.1 200 |PONG\0$)/);
  }
});
