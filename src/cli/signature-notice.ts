// What a start says of the signatures: how many there are, what that means, the command that fetches ClamAV's, and the address to open.
import { relative, resolve } from 'node:path';
import type { Config } from '../config/config.js';
import type { Engine } from '../engine/engine.js';
import type { Log } from '../log.js';
import { mainPath } from '../paths.js';
import { createStandings, type Standing } from '../service/signature-standing.js';

const MEANINGS: Readonly<Record<Standing, string>> = {
  starter: 'only those that ship with Sluice: they find test files and a few shells, and call nearly all malware clean',
  old: "with ClamAV's, which are more than a day old: the newest malware is not among them",
  current: "with ClamAV's, less than a day old",
  other: "without ClamAV's daily database",
};

/** On a terminal as text; otherwise a line of the log, a warning where something is to be done. */
export function tellOfSignatures(engine: Engine, config: Config, url: string, log: Log): void {
  const standing = createStandings(config.signatureFolders, Date.now)(engine);
  const meaning = MEANINGS[standing];
  const todo = standing === 'starter' || standing === 'old' ? updateCommand(config.dataDirectory) : null;
  if (process.stdout.isTTY) {
    process.stdout.write(noticeText({ count: engine.signatureCount, meaning, todo, url }));
  } else if (todo !== null) {
    log.warn({ signatures: engine.signatureCount, standing, meaning, todo }, 'the signatures are not enough');
  }
}

interface Notice {
  readonly count: number;
  readonly meaning: string;
  readonly todo: string | null;
  readonly url: string;
}

function noticeText({ count, meaning, todo, url }: Notice): string {
  const command = todo === null ? [] : ["This fetches ClamAV's; the service takes them over by itself:", `  ${todo}`];
  return ['', `${count} signatures serve, ${meaning}.`, ...command, `The dashboard: ${url}`, '', ''].join('\n');
}

/** As it can be run in the folder where the service was started. */
function updateCommand(dataDirectory: string): string {
  const fromHere = relative(process.cwd(), mainPath);
  const data = dataDirectory === resolve('./data') ? '' : `DATA_DIR=${quoted(dataDirectory)} `;
  return `${data}node ${quoted(fromHere.startsWith('..') ? mainPath : fromHere)} signatures update`;
}

function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
