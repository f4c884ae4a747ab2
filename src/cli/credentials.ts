// What the first start prints, once and only here: the account that it made, and a command that works with it.
import type { BootstrapAccount } from '../account/bootstrap.js';
import type { Config } from '../config-types.js';

/** Straight to stdout, never through the log: logs are kept, and read by others. */
export function firstStartText(account: BootstrapAccount, baseUrl: string): string {
  const rows = [`  e-mail    ${account.email}`];
  if (account.password !== null) rows.push(`  password  ${account.password}`);
  if (account.apiKeyIsRandom) rows.push(`  API key   ${account.apiKey}`);
  // A key that the operator set is his to keep out of a terminal's history.
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
