// The files of deploy/ against the project: what they name is there, what they set is valid, and their sums add up.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { readConfig } from '../../src/config/config.js';
import { environment } from '../../src/config/variables.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { deployPath } from '../fixtures/proxies.js';

const run = promisify(execFile);
const variables = new Set(environment.map(({ name }) => name));
/** Names of others than Sluice: of stores and images, of Apache, of the kernel. */
const FOREIGN =
  /^(?:POSTGRES_\w+|CHECKED_FROM|REDIS_PASSWORD|REDISCLI_AUTH|CLAMAV_NO_\w+|FRESHCLAM_CHECKS|NODE_ENV|REQUEST_STATUS|AF_\w+)$/;
const FILES = [
  'nginx.conf',
  'haproxy.cfg',
  'haproxy-postgres.cfg',
  'apache.conf',
  'Caddyfile',
  'compose.yaml',
  'kubernetes.yaml',
  'kubernetes-stores.yaml',
  'kustomization.yaml',
  'sluice.service',
];
/** As SCAN_THREADS_MOST has them by default. */
const THREADS_FOR_A_CORE = 8;
/** Of a machine that the unit is enough for. */
const CORES_MOST = 240;
/** Threads of Node and processes of the database, of two servers. */
const OTHER_TASKS = 100;
/** What the supervisor takes beside its server, in MB. */
const SUPERVISOR_MB = 200;
/** Of a node. */
const PROCESSES = 2;
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
    command: z.array(z.string()).optional(),
    environment: Values.optional(),
    volumes: z.array(Mount).optional(),
    networks: z.union([z.array(z.string()), z.object({ sluice: z.object({ ipv4_address: z.string() }) })]),
    shm_size: z.string().optional(),
    mem_limit: z.string().optional(),
    depends_on: z.record(z.string(), z.object({ condition: z.string() })).optional(),
    healthcheck: z.object({}).loose().optional(),
  });
  const Compose = z.object({ services: z.record(z.string(), Service), volumes: z.record(z.string(), z.object({})) });
  const { services, volumes } = Compose.parse(documents('compose.yaml')[0]);
  const addressOf = (name: string): string => {
    const networks = services[name]?.networks;
    return networks === undefined || Array.isArray(networks) ? '' : networks.sluice.ipv4_address;
  };
  for (const [name, service] of Object.entries(services)) {
    for (const [source = '', target = ''] of service.volumes ?? []) {
      const isThere = source === './sluice.pem' || existsSync(deployPath(source));
      t.ok(source.startsWith('./') ? isThere : source in volumes, `${name}: ${source}`);
      if (target.startsWith('/etc/sluice/')) t.equal(target, `/etc/sluice/${source.slice(2)}`);
    }
    for (const [other, { condition }] of Object.entries(service.depends_on ?? {})) {
      t.ok(services[other] !== undefined, `${name}: ${other}`);
      if (condition === 'service_healthy') t.ok(services[other]?.healthcheck, `${name}: ${other}`);
    }
  }
  t.strictSame(
    serversOf('haproxy.cfg'),
    ['one', 'two', 'three'].map((name) => `${addressOf(name)}:${imagePort}`),
  );
  t.strictSame(
    serversOf('haproxy-postgres.cfg'),
    ['one', 'two'].map((name) => `${addressOf(`postgres-${name}`)}:5432`),
  );
  for (const [name, other] of [
    ['postgres-one', 'postgres-two'],
    ['postgres-two', 'postgres-one'],
  ] as const) {
    const expected = { PEER: addressOf(other), CHECKED_FROM: `${addressOf('postgres')}/32` };
    t.match(services[name]?.environment, expected);
  }
  const members = Object.keys(services).filter((name) => /^redis-(?!cluster)/.test(name));
  const places = members.map((name) => `${addressOf(name)}:6379`);
  t.strictSame(services['redis-cluster']?.command?.slice(2), places);
  t.equal(places.length, 6);
  for (const name of ['one', 'two', 'three']) {
    const node = services[name];
    // As compose does it with the file .env.
    const env = Object.entries(node?.environment ?? {}).map(([key, value]) => [
      key,
      value.replaceAll(/\$\{(\w+):\?[^}]*\}/g, 'secret'),
    ]);
    const config = readConfig(Object.fromEntries(env));
    t.strictSame(config.trustedProxies, [`${addressOf('balancer')}/32`]);
    t.equal(config.signaturesUpdate, 'off', 'freshclam has a service of its own');
    for (const place of config.redisUrl?.match(/[\d.]+:6379/g) ?? ['none']) t.ok(places.includes(place), place);
    t.match(node, { shm_size: '2g', mem_limit: '8g' });
    assertMemory(t, Object.fromEntries(env), 2048, 8192);
  }
});

function serversOf(file: string): string[] {
  return [...read(file).matchAll(/^ {4}server \S+ (\S+)$/gm)].map(([, place = '']) => place);
}

const Probe = z.object({ httpGet: z.object({ path: z.enum(['/livez', '/readyz']), port: z.literal('http') }) });
const Container = z.object({
  name: z.string(),
  command: z.array(z.string()).optional(),
  env: z.array(z.object({ name: z.string(), value: z.string().optional() })).optional(),
  ports: z.array(z.object({ name: z.string(), containerPort: z.number() })).optional(),
  resources: z.object({ limits: z.object({ memory: z.string() }) }),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })),
});
const Node = Container.extend({ startupProbe: Probe, readinessProbe: Probe, livenessProbe: Probe });
const Volume = z.object({ name: z.string(), emptyDir: z.object({ sizeLimit: z.string() }).optional() });
const Pod = z.object({
  securityContext: z.object({ runAsUser: z.number() }),
  containers: z.array(Container.loose()),
  volumes: z.array(Volume),
});
const Workload = z.object({
  spec: z.object({ replicas: z.number().optional(), template: z.object({ spec: Pod }) }),
});

function manifests(file: string): { of(kind: string): unknown[] } {
  const all = documents(file).map((document) => ({
    document,
    ...z.object({ kind: z.string() }).loose().parse(document),
  }));
  return { of: (kind) => all.filter((one) => one.kind === kind).map(({ document }) => document) };
}

t.test('Kubernetes: settings, ports, paths, volumes and sums', async (t) => {
  const nodes = manifests('kubernetes.yaml');
  const [settings, metrics] = z.array(z.object({ data: Values })).parse(nodes.of('ConfigMap'));
  if (settings === undefined || metrics === undefined) throw new Error('There are two ConfigMaps');
  const config = readConfig({ ...settings.data, DATABASE_URL: 'postgres://a@b/c', REDIS_URL: 'redis://b' });
  t.equal(config.signaturesUpdate, 'off', 'freshclam has a container of its own');
  t.equal(settings.data['PROCESSES'], '2');
  const first = Number(environment.find(({ name }) => name === 'ADMIN_PORT')?.default);
  for (const port of [first, first + 1]) t.match(metrics.data['haproxy.cfg'], `127.0.0.1:${port}`);
  const proxy = join(temporaryFolder(t), 'haproxy.cfg');
  writeFileSync(proxy, metrics.data['haproxy.cfg'] ?? '');
  await run('/usr/sbin/haproxy', ['-c', '-f', proxy]);

  const pod = podOf(t, nodes.of('StatefulSet')[0], ['data']);
  t.match(dockerfile, `--uid ${pod.securityContext.runAsUser} `);
  const sluice = Node.parse(pod.containers.find(({ name }) => name === 'sluice'));
  t.equal(String(sluice.ports?.[0]?.containerPort), imagePort);
  t.match(sluice, { resources: { limits: { memory: '8Gi' } } });
  t.equal(pod.volumes.find(({ name }) => name === 'shm')?.emptyDir?.sizeLimit, '2Gi');
  assertMemory(t, settings.data, 2048, 8192);
  await assertFetches(t, pod.containers.find(({ name }) => name === 'freshclam')?.command ?? []);
  t.match(
    readFileSync(join(deployPath('..'), 'src/service/scan-metrics.ts'), 'utf8'),
    'sluice_scan_wait_seconds: histogram(',
  );
});

/** Each of its containers mounts what the pod has. */
function podOf(t: Test, workload: unknown, claims: readonly string[]): z.infer<typeof Pod> {
  const pod = Workload.parse(workload).spec.template.spec;
  const volumes = new Set([...pod.volumes.map(({ name }) => name), ...claims]);
  for (const { name, volumeMounts } of pod.containers) {
    for (const mount of volumeMounts) t.ok(volumes.has(mount.name), `${name}: ${mount.name}`);
  }
  return pod;
}

t.test('Kubernetes with stores: names that belong together, and the files of the cluster’s run', async (t) => {
  const stores = manifests('kubernetes-stores.yaml');
  const [redis] = stores.of('StatefulSet');
  const [maker] = stores.of('Deployment');
  const Named = z.object({ metadata: z.object({ name: z.string() }), spec: z.looseObject({}) });
  const { metadata, spec } = Named.parse(redis);
  t.match(spec, { replicas: 6, serviceName: metadata.name });
  t.ok(stores.of('Service').some((service) => Named.parse(service).metadata.name === metadata.name));
  t.ok(stores.of('PodDisruptionBudget').length === 1);
  podOf(t, redis, ['data']);
  const places = Array.from({ length: 6 }, (_, at) => `${metadata.name}-${at}.${metadata.name}:6379`);
  t.strictSame(podOf(t, maker, []).containers[0]?.command?.slice(4), places);

  const Whole = z.object({
    resources: z.array(z.string()),
    configMapGenerator: z.array(z.object({ name: z.string(), files: z.array(z.string()) })),
    patches: z.array(z.object({ patch: z.string() })),
  });
  const whole = Whole.parse(documents('kustomization.yaml')[0]);
  for (const file of [...whole.resources, ...whole.configMapGenerator.flatMap(({ files }) => files)]) {
    t.ok(existsSync(deployPath(file)), file);
  }
  const [{ patch } = { patch: '' }] = whole.patches;
  const [postgres] = z.array(Named).parse(stores.of('Cluster'));
  t.match(patch, `{ name: ${postgres?.metadata.name}-app, key: uri }`);
  t.match(patch, `@${metadata.name}:6379`);
});

/** With a log in its settings that it can't write, as those of its image have for a user that they don't know. */
async function assertFetches(t: Test, [program = '', ...args]: readonly string[]): Promise<void> {
  const folder = temporaryFolder(t);
  const settings = ['UpdateLogFile /nowhere/freshclam.log', 'DatabaseMirror 127.0.0.1:9', 'DNSDatabaseInfo no'];
  writeFileSync(join(folder, 'freshclam.conf'), `${settings.join('\n')}\n`);
  // Its log is a file of the test. It locks its log, and other programs may have locked /dev/null.
  const own = args.map((arg) =>
    arg.replace(/^--datadir=.*/, `--datadir=${folder}`).replace(/^--log=.*/, `--log=${folder}/log`),
  );
  const child = spawn(program, [...own, `--config-file=${folder}/freshclam.conf`], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [said] = await once(child.stdout, 'data');
  const ended = once(child, 'exit');
  // Where it has not yet said what it does at a SIGTERM, it may pass over it.
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
  t.ok(PROCESSES * memory.SCAN_TEMP_MB <= shmMb, 'what is unpacked fits');
  t.ok(PROCESSES * (memory.MEMORY_LIMIT_MB + memory.SCAN_TEMP_MB) + SUPERVISOR_MB <= limitMb, 'the sum fits');
}

t.test(
  'systemd: what the pages put somewhere can lie there, and nothing ends or stops the service that need not',
  async (t) => {
    const unit = read('sluice.service');
    const setting = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';
    const pages = ['clamd.md', 'monitoring.md']
      .map((page) => readFileSync(deployPath(`../docs/${page}`), 'utf8'))
      .join();
    const folders = new Set([...pages.matchAll(/\/(?:run|var\/log)\/[\w-]+/g)].map(([folder]) => folder));
    t.strictSame(folders, new Set([`/run/${setting('RuntimeDirectory')}`, `/var/log/${setting('LogsDirectory')}`]));
    // A database that is away ends each start with 69 after a second: five of them in ten seconds, and systemd starts nothing any more.
    t.equal(setting('StartLimitIntervalSec'), '0');
    t.equal(setting('RestartPreventExitStatus'), '78');
    // The defaults of what is resident and of what is unpacked follow from it: on every machine.
    t.match(setting('MemoryMax'), /^\d+%$/);
    t.ok(
      Number(setting('TasksMax')) >= 2 * THREADS_FOR_A_CORE * CORES_MOST + OTHER_TASKS,
      'threads of a large machine, twice at a replacement',
    );
    const filters = [...unit.matchAll(/^SystemCallFilter=(.*)$/gm)].map(([, names = '']) => names);
    const later = filters
      .slice(filters.indexOf('~@privileged') + 1)
      .join(' ')
      .split(' ');
    for (const call of ['capset', 'chown', 'fchownat']) t.ok(later.includes(call), `${call} is let through again`);
  },
);

t.test('Apache: the command of the file has only what is a module of its own in Debian', async (t) => {
  const [, names = ''] = /a2enmod (.*)$/m.exec(read('apache.conf')) ?? [];
  const { stdout } = await run('/usr/sbin/apache2', ['-l']);
  t.ok(names.split(' ').length > 5);
  for (const name of names.split(' ')) {
    t.notMatch(stdout, `mod_${name}.c`, `${name} is not compiled in: a2enmod would know none`);
    t.ok(existsSync(`/usr/lib/apache2/modules/mod_${name}.so`), name);
  }
});
