// The alert rules and the dashboard of deploy/: checked by promtool, and by a real Prometheus that scrapes a real server.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { z } from 'zod';
import { temporaryFolder } from '../fixtures/folder.js';
import { startPostgres } from '../fixtures/postgres.js';
import { startPrometheus } from '../fixtures/prometheus.js';
import { deployPath } from '../fixtures/proxies.js';
import { eicar } from '../fixtures/samples.js';
import { startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';

const rulesPath = deployPath('prometheus/alerts.yaml');
const casesPath = deployPath('../test/deploy/alert-cases.yaml');

const Rules = z.object({
  groups: z.array(
    z.object({ name: z.string(), rules: z.array(z.object({ alert: z.string(), expr: z.string() }).loose()) }),
  ),
});
const Dashboard = z.object({
  panels: z.array(z.object({ title: z.string(), targets: z.array(z.object({ expr: z.string() })).default([]) })),
});

const rules = Rules.parse(parse(readFileSync(rulesPath, 'utf8'))).groups.flatMap((group) => group.rules);
const { panels } = Dashboard.parse(JSON.parse(readFileSync(deployPath('grafana/sluice.json'), 'utf8')));

/** As Grafana sends it. */
function filledIn(expression: string): string {
  return expression.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*');
}

t.test('promtool finds the rules right, and each alert fires in a case of its own', async (t) => {
  execFileSync('promtool', ['check', 'rules', rulesPath]);
  execFileSync('promtool', ['test', 'rules', casesPath]);
  const cases = readFileSync(casesPath, 'utf8');
  for (const { alert } of rules) {
    t.match(cases, new RegExp(`alertname: ${alert}\n *exp_alerts:`), `${alert} has a case in which it fires`);
  }
});

t.test('every query is answered from a scrape of the server, and the alerts fire when it is not well', async (t) => {
  const postgres = await startPostgres({ t });
  const server = await startServer({ t, isSupervised: true, env: { DATABASE_URL: await postgres.database() } });
  const target = `127.0.0.1:${await server.printed(/"port":(\d+),"msg":"metrics"/)}`;
  for (const content of ['one', 'one', eicar()]) t.equal((await upload(server.url, content)).status, 200);
  await fetch(`${server.url}/livez`);

  const text = await (await fetch(`http://${target}/metrics`)).text();
  const known = new Set(Array.from(text.matchAll(/^# TYPE (\w+) /gm), ([, name = '']) => name));
  const queries = [
    ...rules.map(({ expr }) => expr),
    ...panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ];
  t.ok(queries.length > 50);
  for (const query of queries) {
    for (const [name] of query.matchAll(/\bsluice_\w+/g)) {
      t.ok(known.has(name.replace(/_bucket$/, '')), `${name} is a metric of the server`);
    }
  }

  // Those of downloads are named by those of uploads; the process's own are prom-client's.
  const page = readFileSync(deployPath('../docs/monitoring.md'), 'utf8');
  for (const name of known) {
    const named = name.replace(/^sluice_/, '').replace(/^download/, 'upload');
    if (!/^(process|nodejs)_/.test(named)) t.ok(page.includes(`\`${named}\``), `${name} is in docs/monitoring.md`);
  }

  // Without the time that an alert waits for, which is a matter of minutes.
  const folder = temporaryFolder(t);
  const atOnce = join(folder, 'alerts.yaml');
  const impatient = rules.map(({ for: _, ...rule }) => rule);
  writeFileSync(atOnce, stringify({ groups: [{ name: 'sluice', rules: impatient }] }));
  const prometheus = await startPrometheus(folder, { target, rulesPath: atOnce });
  t.teardown(() => prometheus.stop());
  await until(async () => (await prometheus.query('sum(sluice_scans_total)'))[0]?.value === 3);
  for (const query of queries) await prometheus.query(filledIn(query));
  // A scrape that a busy machine did not finish leaves them without a value.
  const becomes = (query: string, value: number) =>
    until(async () => (await prometheus.query(query))[0]?.value === value);
  await becomes('sluice_http_requests_total{route="POST /api/v1/scans",status="200"}', 3);
  await becomes('sluice_scan_seconds_count{size="4KB"}', 2);
  await becomes('sluice_signature_loads_total{outcome="loaded"}', 1);

  await until(async () => (await prometheus.firing()).includes('SluiceSignaturesStarter'));
  t.strictSame(await prometheus.firing(), ['SluiceSignaturesStarter'], 'all else is well');
  postgres.pause();
  await until(async () => (await prometheus.firing()).includes('SluiceStoreDown'));
  postgres.resume();
  await until(async () => !(await prometheus.firing()).includes('SluiceStoreDown'));
  await server.stop();
  await until(async () => (await prometheus.firing()).includes('SluiceDown'));
});
