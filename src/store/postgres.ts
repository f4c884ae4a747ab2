// Postgres, real or embedded, through one driver: connections and nothing else. The schema is migrate.ts.
import postgres from 'postgres';

export type Sql = postgres.Sql;
/** What queries run on: connections, or the one of a transaction. */
export type Queries = postgres.ISql;

export type PostgresAddress =
  | { readonly kind: 'url'; readonly url: string }
  /** The embedded store: a UNIX socket `.s.PGSQL.5432` in this folder. */
  | { readonly kind: 'socket'; readonly directory: string };

/** Seconds until an unreachable server is an error. */
const CONNECT_SECONDS = 5;
/** Connections to a real server; embedded, they share one session, and more of them only wait for each other. */
const CONNECTIONS = { url: 10, socket: 4 };

/** Opens no connection yet: the first query does. */
export function openPostgres(address: PostgresAddress): Sql {
  const common = { connect_timeout: CONNECT_SECONDS, max: CONNECTIONS[address.kind], onnotice: () => undefined };
  if (address.kind === 'url') return postgres(address.url, common);
  return postgres({
    ...common,
    path: `${address.directory}/.s.PGSQL.5432`,
    user: 'postgres',
    database: 'postgres',
    // All connections are one session inside PGlite, where two statements of one name would collide.
    prepare: false,
  });
}

/** Null when the store answers, otherwise what to tell an operator: never the driver's words, which may hold addresses. */
export async function postgresProblem(sql: Sql): Promise<string | null> {
  try {
    await sql`SELECT 1`;
    return null;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
    return `The database does not answer (${code})`;
  }
}
