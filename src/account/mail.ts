// Mail that the service sends: by SMTP, to addresses of accounts alone.
import { messageOfError } from '../error-text.js';
import { Unavailable } from '../errors.js';

export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

export interface Mailer {
  /** Sends it beside what the caller does; what fails is for the log. Throws Failure('unavailable') when too many are being sent. */
  send(mail: () => Promise<Mail | null>): void;
  stop(): Promise<void>;
}

export interface MailerOptions {
  /** smtp: or smtps:, with the name and the password in it. */
  readonly url: string;
  readonly from: string;
  readonly onProblem: (reason: string) => void;
}

/** Being made or sent at once. */
const SENDING_MAX = 20;
const CONNECTIONS_MAX = 2;
const TIMEOUT_MS = 20_000;

/** Its driver is read only where mail is sent. */
export async function openMailer({ url, from, onProblem }: MailerOptions): Promise<Mailer> {
  const { createTransport } = await import('nodemailer');
  const { hostname, port, protocol, username, password } = new URL(url);
  const secure = protocol === 'smtps:';
  const transport = createTransport(
    {
      ...{ host: hostname, secure, port: port === '' ? portOf(secure) : Number(port), pool: true },
      ...{ maxConnections: CONNECTIONS_MAX, connectionTimeout: TIMEOUT_MS, greetingTimeout: TIMEOUT_MS },
      socketTimeout: TIMEOUT_MS,
      ...(username === '' ? {} : { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    },
    { from },
  );
  const sending = new Set<Promise<void>>();

  async function make(mail: () => Promise<Mail | null>): Promise<void> {
    try {
      const made = await mail();
      if (made !== null) await transport.sendMail(made);
    } catch (error) {
      onProblem(messageOfError(error));
    }
  }

  return {
    send(mail) {
      if (sending.size >= SENDING_MAX) throw new Unavailable('mailBusy');
      const work = make(mail).finally(() => sending.delete(work));
      sending.add(work);
    },
    async stop() {
      await Promise.allSettled(sending);
      transport.close();
    },
  };
}

/** RFC 6409 and RFC 8314. */
function portOf(secure: boolean): number {
  return secure ? 465 : 587;
}
