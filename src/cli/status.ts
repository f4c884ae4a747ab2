// `sluice status`: what a server on this machine says of its parts: engine, stores, and the journal of the history with its depth and age.
import { z } from 'zod';
import { reachableUrl, readConfig } from '../config/config.js';
import { MEANINGS, standings } from '../engine/folders.js';
import { askServer } from '../http/fetch.js';
import { EXIT_CLEAN, EXIT_FAILED, escapeText } from './output.js';
import { findService, findServiceIfAny } from './service-place.js';

const TIMEOUT_MS = 5_000;

const part = z.looseObject({ status: z.string() });
const readiness = z.object({
  status: z.string(),
  engine: part,
  signatures: z.enum(standings).nullable(),
  admission: part,
  store: part,
  history: part.extend({
    waitingRows: z.number(),
    waitingBytes: z.number(),
    oldestAgeMs: z.number(),
    damagedFiles: z.number(),
  }),
});
type ReadinessAnswer = z.infer<typeof readiness>;

/** Resolves with the exit code: 0 when scans are served. */
export async function status(
  { json, dataDir }: { readonly json: boolean; readonly dataDir?: string },
  env: NodeJS.ProcessEnv,
): Promise<number> {
  const named = dataDir === undefined ? null : findService(env, { dataDirectory: dataDir });
  const config = readConfig(named ?? findServiceIfAny(env) ?? env);
  const url = reachableUrl({ ...config, baseUrl: null }, config.port);
  let answer: ReadinessAnswer;
  try {
    answer = readiness.parse(await askServer(new URL('/readyz', url), TIMEOUT_MS));
  } catch {
    process.stderr.write(
      `sluice: no server of ours answers at ${url}; --data-dir, or PORT and HOST, say where to look\n`,
    );
    return EXIT_FAILED;
  }
  process.stdout.write(json ? `${JSON.stringify(answer, null, 2)}\n` : textOf(answer));
  return answer.status === 'ready' ? EXIT_CLEAN : EXIT_FAILED;
}

function textOf({ status: whole, engine, signatures, admission, store, history }: ReadinessAnswer): string {
  const { waitingRows, waitingBytes, oldestAgeMs, damagedFiles } = history;
  const damage = damagedFiles === 0 ? '' : `; ${damagedFiles} damaged files of the journal were put aside`;
  const journal = `${waitingRows} rows (${waitingBytes} bytes) wait for the database, the oldest for ${(oldestAgeMs / 1000).toFixed(1)} s`;
  const lines = [
    `service    ${whole}`,
    `engine     ${described(engine)}`,
    ...(signatures === null ? [] : [`signatures ${signatures}, ${MEANINGS[signatures]}`]),
    `admission  ${described(admission)}`,
    `store      ${described(store)}`,
    `history    ${described({ status: history.status, message: history['message'] })}; ${journal}${damage}`,
  ];
  return `${lines.map(escapeText).join('\n')}\n`;
}

/** The status, and the other facts that are plain. */
function described({ status: state, ...facts }: z.infer<typeof part>): string {
  const plain = Object.entries(facts).filter(([, value]) => typeof value === 'string' || typeof value === 'number');
  return [
    state,
    ...plain.map(([name, value]) => (name === 'message' ? String(value) : `${name} ${String(value)}`)),
  ].join(', ');
}
