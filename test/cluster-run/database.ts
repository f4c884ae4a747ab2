// A Postgres with a synchronous standby, and what a manager of the two does: fence the primary, promote the standby, make a standby of what was the primary.
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import postgres from 'postgres';
import { freePort } from '../fixtures/free-port.js';
import { type PostgresServer, serverPassword, startPostgres } from '../fixtures/postgres.js';
import { deployPath } from '../fixtures/proxies.js';
import { until } from '../fixtures/until.js';

/** What the check of deploy/haproxy-postgres.cfg asks for. */
const CHECK_RULE = 'host postgres haproxy_check 127.0.0.1/32 trust\n';
const WITHOUT_STANDBY = ['ALTER SYSTEM RESET synchronous_standby_names', 'SELECT pg_reload_conf()'];

export class Pair {
  readonly ports: readonly [number, number];
  /** Of the service's database. */
  readonly name: string;
  primary: PostgresServer;
  standby: PostgresServer;

  constructor(primary: PostgresServer, standby: PostgresServer, name: string) {
    this.name = name;
    this.primary = primary;
    this.standby = standby;
    this.ports = [primary.port, standby.port];
  }

  /** Of the service's database, wherever the primary is. */
  get url(): string {
    return urlAt(this.primary.port, this.name);
  }

  /** The primary is gone, and known to be: the standby takes its place, and what is left of the old one begins anew as its standby. */
  async failOver(): Promise<void> {
    const old = this.primary;
    await old.crash();
    await ask(this.standby, ...WITHOUT_STANDBY, 'SELECT pg_promote()');
    this.primary = this.standby;
    await old.stop();
    this.standby = await startPostgres({ port: old.port, standbyOf: this.primary.url });
    await follow(this.primary);
  }

  /** Commits wait for a standby that is away until it is taken out. */
  async standAlone(): Promise<void> {
    await ask(this.primary, ...WITHOUT_STANDBY);
  }

  async stop(): Promise<void> {
    await this.standby.stop();
    await this.primary.stop();
  }
}

export async function startPair(): Promise<Pair> {
  const primary = await startPostgres();
  const name = new URL(await primary.database()).pathname.slice(1);
  const rules = join(primary.dataFolder, 'pg_hba.conf');
  writeFileSync(rules, CHECK_RULE + readFileSync(rules, 'utf8'));
  appendFileSync(join(primary.dataFolder, 'postgresql.conf'), readFileSync(deployPath('postgres-pair.conf')));
  await ask(primary, 'CREATE ROLE haproxy_check LOGIN', 'SELECT pg_reload_conf()');
  const standby = await startPostgres({ port: await freePort(), standbyOf: primary.url });
  await follow(primary);
  return new Pair(primary, standby, name);
}

/** As the service connects. */
export function urlAt(port: number, name: string): string {
  return `postgres://postgres:${serverPassword}@127.0.0.1:${port}/${name}`;
}

/** Waits until a standby follows, and has commits wait for it from then on. */
export async function follow(primary: PostgresServer): Promise<void> {
  await until(async () => {
    const [row] = await ask(
      primary,
      "SELECT count(*)::int AS count FROM pg_stat_replication WHERE state = 'streaming'",
    );
    return row?.['count'] === 1;
  });
  await ask(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", 'SELECT pg_reload_conf()');
}

/** The rows of the last one. */
export async function ask(
  { url }: Pick<PostgresServer, 'url'>,
  ...statements: readonly string[]
): Promise<readonly Record<string, unknown>[]> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined });
  try {
    let rows: readonly Record<string, unknown>[] = [];
    for (const statement of statements) rows = await sql.unsafe(statement);
    return rows;
  } finally {
    await sql.end();
  }
}
