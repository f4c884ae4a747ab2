// Rounds of "end all sessions" against everything that may cross it, over four servers on one Postgres: a login, a refresh, and requests with what was ended.
import { startPostgres } from '../fixtures/postgres.js';
import { startServer } from '../fixtures/server.js';
import {
  type Answer,
  ask,
  type Browser,
  bearer,
  EMAIL,
  mySessions,
  PASSWORD,
  post,
  readSignIn,
  refresh,
  signIn,
} from '../fixtures/sign-in.js';

export interface SessionRoundsOptions {
  readonly rounds: number;
  /** From 0 to 1: which server does what. */
  readonly random: () => number;
}

export interface SessionReport {
  readonly rounds: number;
  /** Logins under way at the end of all: those whose session lived on, and those whose session was ended with the others. */
  readonly loginsAfter: number;
  readonly loginsBefore: number;
  /** Refreshes under way that still got a token, of a session that had ended when the round was over. */
  readonly refreshed: number;
  /** Empty when everything holds. */
  readonly problems: readonly string[];
}

const SERVERS = 4;

export async function runSessionRounds({ rounds, random }: SessionRoundsOptions): Promise<SessionReport> {
  const postgres = await startPostgres();
  const env = { DATABASE_URL: await postgres.database(), BOOTSTRAP_EMAIL: EMAIL };
  const servers = await Promise.all(Array.from({ length: SERVERS }, () => startServer({ isSupervised: true, env })));
  const counts = { loginsAfter: 0, loginsBefore: 0, refreshed: 0 };
  const problems: string[] = [];
  const any = (): string => servers[Math.floor(random() * SERVERS)]?.url ?? '';
  /** The statuses of one token on all servers at once. */
  const everywhere = async (token: string): Promise<string> => {
    const answers = await Promise.all(servers.map(({ url }) => mySessions(url, bearer(token))));
    return [...new Set(answers.map(({ status }) => status))].join(' and ');
  };
  const isRefused = async (
    what: string,
    { accessToken, refreshToken }: Pick<Browser, 'accessToken' | 'refreshToken'>,
  ) => {
    const statuses = await everywhere(accessToken);
    if (statuses !== '401') problems.push(`${what}: its token gets ${statuses}`);
    const { status } = await refresh(any(), refreshToken);
    if (status !== 401) problems.push(`${what}: its refresh token gets ${status}`);
  };

  async function round(number: number): Promise<void> {
    const [ending, refreshing, idle] = await Promise.all([signIn(any()), signIn(any()), signIn(any())]);
    if (ending === undefined || refreshing === undefined || idle === undefined) return;
    const path = `${any()}/web/users/me/sessions`;
    const [ended, login, renewed]: Answer[] = await Promise.all([
      ask(path, { method: 'DELETE', headers: bearer(ending.accessToken) }),
      post(`${any()}/web/auth/login`, { email: EMAIL, password: PASSWORD }),
      refresh(any(), refreshing.refreshToken),
    ]);
    if (ended?.status !== 204) problems.push(`round ${number}: the end of all gets ${ended?.status}`);
    await isRefused(`round ${number}, the session that ended all`, ending);
    await isRefused(`round ${number}, a session that did nothing`, idle);
    if (renewed?.status === 200) {
      counts.refreshed += 1;
      await isRefused(`round ${number}, a refresh meanwhile`, readSignIn(renewed));
    } else if (renewed?.status !== 401) problems.push(`round ${number}: the refresh gets ${renewed?.status}`);
    if (login?.status !== 200) {
      problems.push(`round ${number}: the login gets ${login?.status}`);
      return;
    }
    const fresh = readSignIn(login);
    const statuses = await everywhere(fresh.accessToken);
    if (statuses === '200') counts.loginsAfter += 1;
    else if (statuses === '401') counts.loginsBefore += 1;
    else problems.push(`round ${number}: the new session gets ${statuses}`);
    if (statuses === '401') await isRefused(`round ${number}, a login before the end`, fresh);
  }

  try {
    for (let number = 1; number <= rounds; number += 1) await round(number);
    return { rounds, ...counts, problems };
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
    await postgres.stop();
  }
}
