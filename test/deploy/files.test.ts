// The files of deploy/ against the project: what they name is there, what they set is valid, and their sums add up.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { readConfig } from '../../src/config/config.js';
import { environment } from '../../src/config/variables.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { deployPath } from '../fixtures/proxies.js';

const variables = new Set(environment.map(({ name }) => name));
/** Names of others than Sluice: of stores and images, of Apache, of the kernel. */
const FOREIGN =
  /^(?:POSTGRES_\w+|REDIS_PASSWORD|REDISCLI_AUTH|CLAMAV_NO_\w+|FRESHCLAM_CHECKS|NODE_ENV|REQUEST_STATUS|AF_\w+)$/;
const FILES = [
  'nginx.conf',
  'haproxy.cfg',
  'haproxy-postgres.cfg',
  'apache.conf',
  'Caddyfile',
  'compose.yaml',
  'kubernetes.yaml',
  'sluice.service',
];
/** What the supervisor takes beside its server, in MB. */
const SUPERVISOR_MB = 200;
const read = (file: string): string => readFileSync(deployPath(file), 'utf8');
const dockerfile = read('../Dockerfile');
const imagePort = /PORT=(\d+)/.exec(dockerfile)?.[1];

function documents(file: string): unknown[] {
  return parseAllDocuments(read(file), { strict: true, uniqueKeys: true, merge: true }).map((document) => {
    const [problem] = [...document.errors, ...document.warnings];
    if (problem !== undefined) throw problem;
    return document.toJS();
  });
}

const Values = z.record(z.string(), z.string());

t.test('every variable that is named is one', async (t) => {
  for (const file of FILES) {
    for (const [name] of read(file).matchAll(/\b[A-Z]+(?:_[A-Z]+)+\b(?!\()/g)) {
      t.ok(variables.has(name) || FOREIGN.test(name), `${file}: ${name}`);
    }
  }
});

t.test('compose: files, addresses, stores and sums', async (t) => {
  const Mount = z.string().transform((text) => text.split(':'));
  const Service = z.object({
    environment: Values.optional(),
    volumes: z.array(Mount).optional(),
    networks: z.union([z.array(z.string()), z.object({ sluice: z.object({ ipv4_address: z.string() }) })]),
    shm_size: z.string().optional(),
    mem_limit: z.string().optional(),
    depends_on: z.record(z.string(), z.object({ condition: z.literal('service_healthy') })).optional(),
    healthcheck: z.object({}).loose().optional(),
  });
  const Compose = z.object({ services: z.record(z.string(), Service), volumes: z.record(z.string(), z.object({})) });
  const { services, volumes } = Compose.parse(documents('compose.yaml')[0]);
  const addressOf = (name: string): string => {
    const networks = services[name]?.networks;
    return networks === undefined || Array.isArray(networks) ? '' : networks.sluice.ipv4_address;
  };
  for (const [name, service] of Object.entries(services)) {
    for (const [source = ''] of service.volumes ?? []) {
      const isSecret = /^\.\/sluice\.(pem|key)$/.test(source);
      t.ok(
        isSecret || (source.startsWith('./') ? existsSync(deployPath(source)) : source in volumes),
        `${name}: ${source}`,
      );
    }
    for (const other of Object.keys(service.depends_on ?? {})) t.ok(services[other]?.healthcheck, `${name}: ${other}`);
  }
  for (const name of ['one', 'two']) {
    t.match(read('nginx.conf'), `server ${addressOf(name)}:${imagePort} `);
    const node = services[name];
    // As compose does it with the file .env.
    const env = Object.entries(node?.environment ?? {}).map(([key, value]) => [
      key,
      value.replace(/\$\{(\w+):\?[^}]*\}/, 'secret'),
    ]);
    const config = readConfig(Object.fromEntries(env));
    t.strictSame(config.trustedProxies, [`${addressOf('balancer')}/32`]);
    t.match(node, { shm_size: '1g', mem_limit: '4g' });
    assertMemory(t, Object.fromEntries(env), 1024, 4096);
  }
});

t.test('Kubernetes: settings, ports, paths, volumes and sums', async (t) => {
  const byKind = new Map<string, unknown[]>();
  for (const document of documents('kubernetes.yaml')) {
    const { kind } = z.object({ kind: z.string() }).loose().parse(document);
    byKind.set(kind, [...(byKind.get(kind) ?? []), document]);
  }
  const [settings, metrics] = z.array(z.object({ data: Values })).parse(byKind.get('ConfigMap'));
  if (settings === undefined || metrics === undefined) throw new Error('There are two ConfigMaps');
  readConfig({ ...settings.data, DATABASE_URL: 'postgres://a@b/c', REDIS_URL: 'redis://b' });
  t.match(metrics.data['haproxy.cfg'], `127.0.0.1:${environment.find(({ name }) => name === 'ADMIN_PORT')?.default}`);

  const Probe = z.object({ httpGet: z.object({ path: z.enum(['/livez', '/readyz']), port: z.literal('http') }) });
  const Container = z.object({
    name: z.string(),
    command: z.array(z.string()).optional(),
    ports: z.array(z.object({ name: z.string(), containerPort: z.number() })).optional(),
    resources: z.object({ limits: z.object({ memory: z.string() }) }),
    volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })),
    startupProbe: Probe.optional(),
    readinessProbe: Probe.optional(),
    livenessProbe: Probe.optional(),
  });
  const Volume = z.object({ name: z.string(), emptyDir: z.object({ sizeLimit: z.string() }).optional() });
  const Pod = z.object({
    securityContext: z.object({ runAsUser: z.number() }),
    containers: z.array(Container),
    volumes: z.array(Volume),
  });
  const [set] = z
    .array(z.object({ spec: z.object({ template: z.object({ spec: Pod }) }) }))
    .parse(byKind.get('StatefulSet'));
  if (set === undefined) throw new Error('There is one StatefulSet');
  const pod = set.spec.template.spec;
  t.match(dockerfile, `--uid ${pod.securityContext.runAsUser} `);
  const volumes = new Set([...pod.volumes.map(({ name }) => name), 'data']);
  for (const { name, volumeMounts } of pod.containers) {
    for (const mount of volumeMounts) t.ok(volumes.has(mount.name), `${name}: ${mount.name}`);
  }
  const sluice = pod.containers.find(({ name }) => name === 'sluice');
  t.equal(String(sluice?.ports?.[0]?.containerPort), imagePort);
  t.match(sluice, {
    startupProbe: {},
    readinessProbe: {},
    livenessProbe: {},
    resources: { limits: { memory: '4Gi' } },
  });
  t.equal(pod.volumes.find(({ name }) => name === 'shm')?.emptyDir?.sizeLimit, '1Gi');
  assertMemory(t, settings.data, 1024, 4096);
  await assertFetches(t, pod.containers.find(({ name }) => name === 'freshclam')?.command ?? []);
  t.match(readFileSync(join(deployPath('..'), 'src/service/scan-metrics.ts'), 'utf8'), "'sluice_scan_wait_seconds'");
});

/** With a log in its settings that it can't write, as those of its image have for a user that they don't know. */
async function assertFetches(t: Test, [program = '', ...args]: readonly string[]): Promise<void> {
  const folder = temporaryFolder(t);
  const settings = ['UpdateLogFile /nowhere/freshclam.log', 'DatabaseMirror 127.0.0.1:9', 'DNSDatabaseInfo no'];
  writeFileSync(join(folder, 'freshclam.conf'), `${settings.join('\n')}\n`);
  const own = args.map((arg) => (arg.startsWith('--datadir=') ? `--datadir=${folder}` : arg));
  const child = spawn(program, [...own, `--config-file=${folder}/freshclam.conf`], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [said] = await once(child.stdout, 'data');
  const ended = once(child, 'exit');
  // Where it has not yet said what it does at a SIGTERM, it may pass over it; and what stays holds the lock of its log, /dev/null.
  child.kill('SIGKILL');
  await ended;
  t.match(String(said), 'update process started');
}

/** What is unpacked fits into /dev/shm, which is part of what the container may have. */
function assertMemory(
  t: { ok(value: boolean, name: string): boolean },
  env: unknown,
  shmMb: number,
  limitMb: number,
): void {
  const memory = z.object({ MEMORY_LIMIT_MB: z.coerce.number(), SCAN_TEMP_MB: z.coerce.number() }).parse(env);
  t.ok(memory.SCAN_TEMP_MB <= shmMb, 'what is unpacked fits');
  t.ok(memory.MEMORY_LIMIT_MB + memory.SCAN_TEMP_MB + SUPERVISOR_MB <= limitMb, 'the sum fits');
}
