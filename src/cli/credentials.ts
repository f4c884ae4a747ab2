// What the first start shows, once and only here: the account that it made, and a command that works with it.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BootstrapAccount } from '../account/users.js';
import type { Config } from '../config/config.js';
import { messageOfError } from '../error-text.js';
import type { Log } from '../log.js';

/** Below the data directory. */
const FILE_NAME = 'first-account.txt';

/**
 * Shows it on the terminal. Where stdout is not a terminal, it ends in a log, which is kept and which others read. Then the account is
 * written to a file that only this user can read, and the log says where it is.
 */
export function showFirstAccount(account: BootstrapAccount, baseUrl: string, dataDirectory: string, log: Log): void {
  const text = firstStartText(account, baseUrl);
  const isSecret = account.password !== null || account.apiKeyIsRandom;
  if (process.stdout.isTTY || !isSecret) {
    process.stdout.write(text);
    return;
  }
  const path = join(dataDirectory, FILE_NAME);
  try {
    mkdirSync(dataDirectory, { recursive: true });
    // The file of an earlier database names an account that is gone.
    rmSync(path, { force: true });
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
    log.info({ path }, 'the first account was made; its key and a curl line are in this file: read it and remove it');
  } catch (error) {
    const reason = messageOfError(error);
    const todo = `sluice user password ${account.email}; sluice key create ${account.email}`;
    log.error({ path, reason, todo }, 'the first account was made, and what it has could not be written: make it anew');
  }
}

function firstStartText(account: BootstrapAccount, baseUrl: string): string {
  const rows = [`  e-mail    ${account.email}`];
  if (account.password !== null) rows.push(`  password  ${account.password}`);
  if (account.apiKeyIsRandom) rows.push(`  API key   ${account.apiKey}`);
  // A key that the operator set is not shown: it would stay in the history of the terminal.
  const key = account.apiKeyIsRandom ? `'X-API-KEY: ${account.apiKey}'` : '"X-API-KEY: $BOOTSTRAP_API_KEY"';
  return [
    '',
    `The first account was made, on the plan ${account.plan}. What it has is not shown again:`,
    ...rows,
    '',
    'A scan with it:',
    `  echo hello | curl -H ${key} -F 'file=@-;filename=hello.txt' ${baseUrl}/api/v1/scans`,
    '',
    '',
  ].join('\n');
}

/** Where this machine reaches the service: an address that stands for all of them is not one to connect to. */
export function reachableUrl(config: Config, port: number): string {
  if (config.baseUrl !== null) return config.baseUrl.replace(/\/$/, '');
  if (config.host === '0.0.0.0' || config.host === '::') return `http://127.0.0.1:${port}`;
  return `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`;
}
