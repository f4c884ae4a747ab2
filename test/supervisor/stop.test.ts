// Clients that connect anew for each request, while the service stops. Who has connected is answered. All others are refused.
import { connect, type NetConnectOpts } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from '../fixtures/folder.js';
import { freePort } from '../fixtures/free-port.js';
import { startServer } from '../fixtures/server.js';
import { EMAIL } from '../fixtures/sign-in.js';

const CLIENTS = 4;

/** What became of one connection: its answer, or why there is none. */
function attempt(place: NetConnectOpts, question: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(place);
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
async function untilRefused(
  place: NetConnectOpts,
  question: string,
  onAnswer: () => void,
): Promise<ReadonlySet<string>> {
  const answers = new Set<string>();
  for (;;) {
    const answer = await attempt(place, question);
    if (answer === 'refused') return answers;
    answers.add(answer);
    onAnswer();
  }
}

const forms = { 'with its supervisor': true, 'by itself': false };
for (const [form, isSupervised] of Object.entries(forms))
  t.test(`who has connected when a service ${form} stops is answered, by each protocol`, async (t) => {
    const [clamdPort, icapPort] = [await freePort(), await freePort()];
    const clamdSocket = join(temporaryFolder(t), 'clamd');
    const server = await startServer({
      isSupervised,
      env: {
        BOOTSTRAP_EMAIL: EMAIL,
        CLAMD_PORT: String(clamdPort),
        CLAMD_SOCKET: clamdSocket,
        CLAMD_ACCOUNT: EMAIL,
        ICAP_PORT: String(icapPort),
        ICAP_ACCOUNT: EMAIL,
      },
    });
    await server.printed(/"msg":"(ICAP)"/);
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
    const icap = 'OPTIONS icap://a/scan ICAP/1.0\r\nHost: a\r\nConnection: close\r\n\r\n';
    const at = (port: number): NetConnectOpts => ({ host: '127.0.0.1', port });
    const clients = Array.from({ length: CLIENTS }, () => [
      untilRefused(at(server.port), http, onAnswer),
      untilRefused(at(clamdPort), 'zPING\0', onAnswer),
      untilRefused({ path: clamdSocket }, 'zPING\0', onAnswer),
      untilRefused(at(icapPort), icap, onAnswer),
    ]).flat();
    await warm;
    t.equal(await server.stop(), 0);
    for (const answers of await Promise.all(clients)) {
      for (const answer of answers) t.match(answer, /^(?:HTTP\/1\.1 200 |PONG\0$|ICAP\/1\.0 200 )/);
    }
  });
