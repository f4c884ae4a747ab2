// Configuration: defaults, what is refused (all of it at once, never with its value), and what an empty variable means.
import { delimiter, resolve } from 'node:path';
import t from 'tap';
import { reachableUrl, readConfig } from '../../src/config/config.js';
import { environment } from '../../src/config/variables.js';
import { ownSignaturesDirectory } from '../../src/paths.js';
import { problemsOf } from './problems.js';

t.test('without any variable the service has everything it needs', async (t) => {
  const config = readConfig({});
  t.match(config, {
    port: 8080,
    host: '127.0.0.1',
    adminPort: 9090,
    baseUrl: null,
    dataDirectory: resolve('data'),
    databaseUrl: null,
    sandbox: 'auto',
    encryptedArchives: 'allow',
    appEnv: 'PRODUCTION',
    logLevel: 'info',
    accessLog: 'off',
    accessLogPath: null,
    otlpEndpoint: null,
    otlpTracesEndpoint: null,
    isOtelDisabled: false,
    scanQueue: 1024,
    scanTimeoutMs: 60_000,
    scanLimits: { maxScanSizeBytes: 200 * 1024 * 1024, maxFiles: 10_000 },
    signaturesPollMs: 30_000,
    signaturesMirror: null,
    signatureUrls: [],
    uploadTimeoutMs: 120_000,
    uploadWaitMs: 15_000,
    urlAllowNetworks: [],
    urlPorts: null,
    urlDnsServers: null,
    downloadTimeoutMs: 30_000,
    downloadsPerUser: 8,
    bootstrap: { email: null, password: null, apiKey: null, plan: 'BUSINESS' },
  });
  t.ok(config.scanThreads >= 1);
  t.ok(config.uploadMemoryBytes >= 64 * 1024 * 1024);
  t.strictSame(config.plans, [
    { name: 'FREE', hourlyLimit: 50, prices: [] },
    { name: 'PRO', hourlyLimit: 1_000, prices: [] },
    { name: 'BUSINESS', hourlyLimit: 10_000, prices: [] },
  ]);
  t.equal(config.signatureFolders.directories.at(-1), ownSignaturesDirectory);
});

t.test('an empty variable is an unset one, for each of them', async (t) => {
  const empty = Object.fromEntries(environment.map(({ name }) => [name, '']));
  t.strictSame(readConfig(empty), readConfig({}));
  t.strictSame(readConfig({ PORT: undefined, SOMETHING_ELSE: 'x' }), readConfig({}));
});

t.test('what is given is taken', async (t) => {
  const config = readConfig({
    PORT: '0',
    HOST: '::1',
    BASE_URL: 'https://sluice.example.org',
    DATA_DIR: '/srv/sluice',
    DATABASE_URL: 'postgresql://db.example.org/sluice',
    SCAN_THREADS: '3',
    SCAN_THREADS_MOST: '7',
    UPLOAD_MEMORY_MB: '16',
    SIGNATURES_MIRROR: 'https://mirror.example.org/clamav',
    SIGNATURES_URLS: 'https://a.example.org/x.ndb, http://b.example.org:8080/y/z.hdb',
    SCAN_MAX_SIZE_MB: '11',
    ENCRYPTED_ARCHIVES: 'reject',
    PLANS: 'SMALL:1, LARGE_2:999999999',
    BOOTSTRAP_PLAN: 'LARGE_2',
    BOOTSTRAP_API_KEY: '0123456789abcdef0123456789abcdef',
  });
  t.match(config, {
    port: 0,
    host: '::1',
    baseUrl: 'https://sluice.example.org',
    dataDirectory: '/srv/sluice',
    databaseUrl: 'postgresql://db.example.org/sluice',
    scanThreads: 3,
    scanThreadsMost: 7,
    uploadMemoryBytes: 16 * 1024 * 1024,
    signaturesMirror: 'https://mirror.example.org/clamav',
    signatureUrls: ['https://a.example.org/x.ndb', 'http://b.example.org:8080/y/z.hdb'],
    scanLimits: { maxScanSizeBytes: 11 * 1024 * 1024, maxTemporaryBytes: 2 * 3 * 11 * 1024 * 1024 },
    encryptedArchives: 'reject',
    bootstrap: { plan: 'LARGE_2', apiKey: '0123456789abcdef0123456789abcdef' },
  });
  t.strictSame(config.plans, [
    { name: 'SMALL', hourlyLimit: 1, prices: [] },
    { name: 'LARGE_2', hourlyLimit: 999_999_999, prices: [] },
  ]);
});

t.test('several signature folders replace the default ones, in their order', async (t) => {
  const { signatureFolders } = readConfig({ SIGNATURES_DIR: ['/b', 'a', '', '/c/../d'].join(delimiter) });
  t.strictSame(signatureFolders, { directories: ['/b', resolve('a'), '/d'], optionalDirectories: [] });
});

/** Values that are recognisable wherever they might be printed. */
const wrong: Record<string, string> = {
  PORT: '70001',
  HOST: 'wrong host',
  ADMIN_PORT: 'wrong-admin',
  BASE_URL: 'ftp://wrong-base-url',
  DATABASE_URL: 'mysql://user:wrong-database@host/db',
  SCAN_THREADS: '0',
  SCAN_QUEUE: 'wrong-queue',
  SCAN_TIMEOUT_MS: '99',
  SCAN_MAX_SIZE_MB: '10',
  SCAN_MAX_FILES: '0',
  SIGNATURES_DIR: ':',
  SIGNATURES_POLL_SECONDS: '86401',
  SIGNATURES_MIRROR: 'wrong-mirror',
  SIGNATURES_URLS: 'https://wrong.example.org/',
  VERDICT_CACHE: 'wrong-scope',
  VERDICT_CACHE_MB: '65537',
  UPLOAD_TIMEOUT_MS: '1e5',
  UPLOAD_WAIT_MS: '-1',
  UPLOAD_MEMORY_MB: '15',
  URL_ALLOW_NETWORKS: '10.0.0.0/8,10.1.2.3/8',
  URL_PORTS: '80,wrong-port',
  URL_DNS_SERVERS: 'wrong-dns.example',
  DOWNLOAD_TIMEOUT_MS: '999',
  DOWNLOAD_MEMORY_MB: '15',
  DOWNLOADS_PER_USER: '0',
  ENCRYPTED_ARCHIVES: 'wrong-policy',
  STRIPE_SECRET_KEY: 'wrong-secret',
  STRIPE_WEBHOOK_SECRET: 'wrong-webhook',
  STRIPE_PRICES: 'wrong-prices',
  STRIPE_API_BASE: 'http://wrong.example.org',
  REGISTRATION: 'wrong-registration',
  TRUSTED_PROXIES: '10.0.0.0/33',
  JWT_ISSUER: 'https://wrong-issuer.example.org/'.repeat(40),
  JWT_JWKS_URL: 'http://wrong-jwks.example.org/',
  JWT_AUDIENCE: 'wrong-audience'.repeat(80),
  APP_ENV: 'wrong-env'.repeat(10),
  LOG_LEVEL: 'wrong-level',
  ACCESS_LOG: 'apache',
  OTEL_EXPORTER_OTLP_ENDPOINT: 'wrong-collector',
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'wrong-traces',
  OTEL_SDK_DISABLED: 'wrong-switch',
  BOOTSTRAP_EMAIL: 'wrong-email',
  BOOTSTRAP_PASSWORD: 'wrong-pass',
  BOOTSTRAP_API_KEY: 'WRONG-KEY',
};

t.test('every problem is listed at once, and no value with it', async (t) => {
  const problems = problemsOf(wrong);
  t.strictSame(problems.map((problem) => problem.split(' ')[0]).sort(), Object.keys(wrong).sort());
  t.notMatch(problems.join('\n'), /wrong|WRONG|70001|1e5|mysql|ftp/);
  t.throws(() => readConfig(wrong), {
    message: new RegExp(
      `^The configuration has ${Object.keys(wrong).length} problems:\\n {2}PORT must be at most 65535\\n`,
    ),
  });
  t.throws(() => readConfig({ PORT: 'x' }), {
    message: 'The configuration has a problem:\n  PORT must be a whole number',
  });
});

t.test(
  'what is wrong between variables is listed with what is wrong by itself, and nothing that only follows from it',
  async (t) => {
    t.strictSame(
      problemsOf({
        PORT: 'x',
        PLANS: 'SMALL:1,LARGE:2',
        PROCESSES: '2',
        REDIS_URL: 'http://wrong',
        STRIPE_SECRET_KEY: 'wrong',
        STRIPE_PRICES: 'HUGE:price_1',
        JWT_ISSUER: 'sluice',
        JWT_JWKS_URL: 'wrong',
      }).map((problem) => problem.replace(/ (must be|is needed|must not|must name|must look|must be set).*/, ' $1')),
      [
        'PORT must be',
        'REDIS_URL must be',
        'STRIPE_SECRET_KEY must look',
        'JWT_JWKS_URL must be',
        'BOOTSTRAP_PLAN must be',
        'STRIPE_WEBHOOK_SECRET is needed',
        'BASE_URL is needed',
        'STRIPE_PRICES must name',
        'JWT_AUDIENCE must be',
        'JWT_ISSUER must not',
      ],
    );
    t.match(problemsOf({ PLANS: 'wrong', STRIPE_SECRET_KEY: 'sk_test_a', STRIPE_PRICES: 'PRO:price_1' }), [
      /^PLANS must look/,
      /^STRIPE_WEBHOOK_SECRET is needed/,
      /^BASE_URL is needed/,
    ]);
  },
);

t.test('the words are our own, and a variable that has no effect is a mistake', (t) => {
  const stream = { ICAP_PORT: '1344', ICAP_ACCOUNT: 'icap@example.com', SCAN_MAX_SIZE_MB: '110', ASYNC_MAX_MB: '10' };
  t.strictSame(problemsOf({ ...stream, STREAM_MAX_MB: '110', UPLOAD_MEMORY_MB: '500' }), [
    'STREAM_MAX_MB must be below SCAN_MAX_SIZE_MB',
  ]);
  t.strictSame(problemsOf({ SMTP_URL: 'smtp://127.0.0.1' }), ['BASE_URL is needed when SMTP_URL is set']);
  t.strictSame(problemsOf({ APP_ENV: 'x'.repeat(65) }), ['APP_ENV must have at most 64 characters']);
  t.strictSame(problemsOf({ ACCESS_LOG_FILE: 'x' }), ['ACCESS_LOG_FILE is for ACCESS_LOG, which is off']);
  t.strictSame(problemsOf({ ACCESS_LOG_FILE: 'x', ACCESS_LOG: 'json' }), []);
  t.strictSame(problemsOf({ CLAMD_PATHS: '/mnt', ICAP_ACCOUNT: 'mail@example.com', STREAM_MAX_MB: '20' }), [
    'CLAMD_PATHS is for CLAMD_SOCKET or CLAMD_PORT, which is off',
    'ICAP_ACCOUNT is for ICAP_PORT, which is off',
    'STREAM_MAX_MB is for CLAMD_SOCKET or CLAMD_PORT or ICAP_PORT, which is off',
  ]);
  t.strictSame(problemsOf({ SCAN_THREADS: '3', SCAN_THREADS_MOST: '2' }), [
    'SCAN_THREADS_MOST must be at least SCAN_THREADS',
  ]);
  t.strictSame(problemsOf({ SANDBOX: 'required', ENGINE: 'yara' }), [
    'SANDBOX must not be required with ENGINE=yara: nothing would be scanned',
  ]);
  t.equal(readConfig({ SANDBOX: 'required' }).engine, 'clamav', 'rules that nothing confines stand in for nobody');
  t.strictSame(problemsOf({ PORT: '9090' }), ['PORT must not be the port of ADMIN_PORT']);
  const ports = { PORT: '81', ADMIN_PORT: '80', PROCESSES: '2', REDIS_URL: 'redis://127.0.0.1', ICAP_PORT: '81' };
  t.strictSame(problemsOf({ ...ports, ICAP_ACCOUNT: 'icap@example.com' }), [
    'PORT must not be the port of a process: each has one for its metrics, from ADMIN_PORT (80) on',
    'ICAP_PORT must not be the port of PORT',
  ]);
  t.strictSame(problemsOf({ PORT: '0', ADMIN_PORT: '0' }), [], 'free ones differ');
  for (const host of ['::1', 'fe80::1%eth0', '0.0.0.0', 'localhost', 'scan-1.example.com'])
    t.strictSame(problemsOf({ HOST: host }), []);
  for (const host of ['a b', 'http://a', '127.0.0.1:80', '[::1]', 'a..b'])
    t.match(problemsOf({ HOST: host }), [/^HOST must be an address/], host);
  t.end();
});
t.test('traces without room for one span are refused: the SDK would send empty requests without an end', async (t) => {
  t.match(readConfig({}), { traceQueueSpans: 2048, traceBatchSpans: 512 });
  for (const name of ['OTEL_BSP_MAX_QUEUE_SIZE', 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE']) {
    t.strictSame(problemsOf({ [name]: '0' }), [`${name} must be at least 1`]);
    t.strictSame(problemsOf({ [name]: '-3' }), [`${name} must be a whole number`]);
  }
});

t.test('a blank or a line feed that a file of variables has left at an end names no other folder', async (t) => {
  const taken = 'DATA_DIR SIGNATURES_DIR APP_ENV CLAMD_SOCKET ICAP_BLOCK_PAGE JWT_ISSUER JWT_AUDIENCE ACCESS_LOG_FILE';
  for (const name of taken.split(' ')) {
    for (const text of ['/srv/sluice ', ' /srv/sluice', '/srv/sluice\r', ' ']) {
      const problems = problemsOf({ [name]: text });
      t.ok(problems.includes(`${name} must not begin or end with a blank`), `${name}=${JSON.stringify(text)}`);
    }
  }
  t.match(problemsOf({ SIGNATURES_DIR: `/one${delimiter}/two ` }), [
    'SIGNATURES_DIR must not begin or end with a blank',
  ]);
  t.strictSame(problemsOf({ DATA_DIR: '/srv/my files', SIGNATURES_DIR: '/my signatures' }), []);
});

t.test('whose verdicts are remembered', async (t) => {
  t.match(readConfig({}), { verdictScope: 'shared', verdictCacheBytes: 64 * 1024 * 1024 });
  t.match(readConfig({ VERDICT_CACHE: 'account', VERDICT_CACHE_MB: '1' }), {
    verdictScope: 'account',
    verdictCacheBytes: 1024 * 1024,
  });
  t.match(readConfig({ VERDICT_CACHE_MB: '0' }), { verdictCacheBytes: 0 });
  t.match(problemsOf({ VERDICT_CACHE: 'off' }), ['VERDICT_CACHE must be one of shared, account']);
});

t.test('networks, ports and DNS servers of URL scans are read strictly', async (t) => {
  const config = readConfig({
    URL_ALLOW_NETWORKS: '127.0.0.1/32, fd00::/8,0.0.0.0/0,2001:db8::/33',
    URL_PORTS: '80,443, 8000-8999,65535',
    URL_DNS_SERVERS: '192.0.2.53, 127.0.0.1:5353,2001:db8::53,[2001:db8::53]:53',
  });
  t.strictSame(config.urlAllowNetworks, ['127.0.0.1/32', 'fd00::/8', '0.0.0.0/0', '2001:db8::/33']);
  const ranges = [
    [80, 80],
    [443, 443],
    [8000, 8999],
    [65_535, 65_535],
  ];
  t.strictSame(config.urlPorts, ranges);
  t.strictSame(config.urlDnsServers, ['192.0.2.53', '127.0.0.1:5353', '2001:db8::53', '[2001:db8::53]:53']);
  const bad: Record<string, string[]> = {
    URL_ALLOW_NETWORKS: [
      '10.0.0.0',
      '10.0.0.0/',
      '10.0.0.0/08',
      '10.0.0.0/33',
      '10.0.0.1/8',
      '10/8',
      'fd00::/129',
      'fd00::1/8',
      'fe80::%eth0/64',
      'localhost/8',
      '10.0.0.0/8,',
      '10.0.0.0/8/8',
      '*',
    ],
    URL_PORTS: ['0', '65536', '80-', '-80', '90-80', '80;443', '80,', '0x50', '080', '*'],
    URL_DNS_SERVERS: [
      'dns.example',
      '192.0.2.53:',
      '192.0.2.53:0',
      '192.0.2.53:65536',
      '[192.0.2.53]:53',
      '::1]:53',
      ',',
    ],
  };
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) t.match(problemsOf({ [name]: value }), [new RegExp(`^${name} must list`)], value);
  }
});

t.test('a third-party issuer needs all three variables, and to be another one', async (t) => {
  const all = {
    JWT_ISSUER: 'https://id.example.org',
    JWT_JWKS_URL: 'https://id.example.org/jwks',
    JWT_AUDIENCE: 'sluice',
  };
  t.strictSame(readConfig(all).trustedIssuer, {
    issuer: 'https://id.example.org',
    jwksUrl: 'https://id.example.org/jwks',
    audience: 'sluice',
  });
  t.equal(readConfig({}).trustedIssuer, null);
  for (const name of Object.keys(all)) {
    t.match(problemsOf({ ...all, [name]: '' }), [new RegExp(`^${name} must be set as well`)], name);
  }
  t.strictSame(problemsOf({ ...all, JWT_JWKS_URL: 'http://127.0.0.1:8081/jwks' }), [], 'on this machine without TLS');
  t.match(problemsOf({ ...all, BASE_URL: 'https://id.example.org/' }), [/^JWT_ISSUER must not be/]);
});

t.test('an address that stands for all is none to connect to', (t) => {
  for (const [host, reached] of [
    ['0.0.0.0', '127.0.0.1'],
    ['::', '127.0.0.1'],
    ['::1', '[::1]'],
    ['scan.example.com', 'scan.example.com'],
  ] as const) {
    t.equal(reachableUrl({ baseUrl: null, host }, 81), `http://${reached}:81`);
  }
  t.equal(reachableUrl({ baseUrl: 'https://scan.example.com/', host: '::' }, 81), 'https://scan.example.com');
  t.end();
});

t.test('trusted proxies are networks', async (t) => {
  t.strictSame(readConfig({ TRUSTED_PROXIES: '10.0.0.0/8, fd00::/8' }).trustedProxies, ['10.0.0.0/8', 'fd00::/8']);
  for (const bad of ['10/8', '10.0.0.1', '10.0.0.0/33', 'proxy/8', '10.0.0.0/8,']) {
    t.match(problemsOf({ TRUSTED_PROXIES: bad }), [/^TRUSTED_PROXIES must look like/], bad);
  }
});

t.test('several processes need a Redis that counts for all of them, and share the cores and the memory', async (t) => {
  t.strictSame(problemsOf({ PROCESSES: '2' }), [
    'REDIS_URL is needed when PROCESSES is above 1: they share their counts',
  ]);
  const stores = { REDIS_URL: 'redis://cache' };
  const [one, four] = ['1', '4'].map((count) => readConfig({ ...stores, PROCESSES: count }));
  t.equal(four?.scanThreads, Math.max(1, Math.floor((one?.scanThreads ?? 0) / 4)));
  t.equal(four?.memoryLimitBytes, Math.floor((one?.memoryLimitBytes ?? 0) / 4));
  t.equal(readConfig({ MEMORY_LIMIT_MB: '0' }).memoryLimitBytes, null);
  t.equal(readConfig({ MEMORY_LIMIT_MB: '512' }).memoryLimitBytes, 512 * 1024 * 1024);
});

t.test('PROCESSES=auto is a number that fits the machine, and needs no Redis', async (t) => {
  const stores = { REDIS_URL: 'redis://cache' };
  t.equal(readConfig({ PROCESSES: 'auto' }).processes, 1);
  const chosen = readConfig({ PROCESSES: 'auto', ...stores });
  t.type(chosen.processesBecause, 'string');
  const asNumber = readConfig({ PROCESSES: String(chosen.processes), ...stores });
  t.equal(asNumber.processesBecause, null);
  t.strictSame({ ...chosen, processesBecause: null }, asNumber, 'the same as that number');
  const crowded = readConfig({ PROCESSES: 'auto', MEMORY_LIMIT_MB: '16777216', ...stores });
  t.equal(crowded.processes, 1, 'no two of them have room');
  for (const bad of ['all', '1.5', 'AUTO', '-1']) {
    t.strictSame(
      problemsOf({ PROCESSES: bad, ...stores }),
      ['PROCESSES must be auto or a whole number from 1 to 64'],
      bad,
    );
  }
  t.strictSame(problemsOf({ PROCESSES: '0' }), ['PROCESSES must be at least 1']);
  t.strictSame(problemsOf({ PROCESSES: '65' }), ['PROCESSES must be at most 64']);
});

t.test('ICAP needs an account; what a stream may have holds for it as for clamd', async (t) => {
  t.equal(readConfig({}).icap, null);
  const set = { ICAP_PORT: '1344', ICAP_ACCOUNT: 'proxy@example.org' };
  t.strictSame(readConfig(set).icap, {
    port: 1344,
    allowNetworks: [],
    account: 'proxy@example.org',
    incomplete: 'block',
    blockPage: null,
  });
  t.equal(readConfig({ ...set, UPLOAD_MEMORY_MB: '256', STREAM_MAX_MB: '100' }).streamLimitBytes, 100 * 1024 * 1024);
  t.throws(() => readConfig({ ICAP_PORT: '1344' }), /ICAP_ACCOUNT is needed/);
  t.throws(() => readConfig({ ...set, UPLOAD_MEMORY_MB: '64', STREAM_MAX_MB: '100' }), /at most half/);
  t.throws(() => readConfig({ ...set, ICAP_ALLOW_NETWORKS: '10.0.0.1' }), /must list networks/);
  t.throws(() => readConfig({ ...set, ICAP_INCOMPLETE: 'maybe' }), /ICAP_INCOMPLETE/);
  t.throws(() => readConfig({ ...set, ICAP_BLOCK_PAGE: 'page.html' }), /ICAP_BLOCK_PAGE must be an absolute path/);
});

t.test("clamd's protocol is off without a place, and needs an account with one", async (t) => {
  t.equal(readConfig({}).clamd, null);
  const place = { CLAMD_SOCKET: '/run/sluice/clamd.sock', CLAMD_ACCOUNT: 'files@example.org' };
  t.match(readConfig(place).clamd, {
    socketPath: '/run/sluice/clamd.sock',
    socketMode: 0o660,
    socketGroup: null,
    port: null,
    networks: [],
    paths: [],
  });
  const all = {
    CLAMD_PORT: '3310',
    CLAMD_ALLOW_NETWORKS: '10.0.0.0/8',
    CLAMD_PATHS: '/mnt/a, /mnt/b',
    CLAMD_SOCKET_GROUP: 'mail',
  };
  t.match(readConfig({ ...place, ...all }).clamd, {
    port: 3310,
    networks: ['10.0.0.0/8'],
    paths: ['/mnt/a', '/mnt/b'],
    socketGroup: 'mail',
  });
  t.match(problemsOf({ CLAMD_PORT: '3310' }), [/^CLAMD_ACCOUNT is needed/]);
  t.match(problemsOf({ ...place, CLAMD_ALLOW_NETWORKS: '10.0.0.0/8' }), [/^CLAMD_ALLOW_NETWORKS is for CLAMD_PORT/]);
  t.match(problemsOf({ ...place, CLAMD_PATHS: 'relative' }), [/^CLAMD_PATHS must list absolute paths/]);
  t.match(problemsOf({ ...place, CLAMD_SOCKET_MODE: '999' }), [/^CLAMD_SOCKET_MODE must be three octal digits/]);
});

t.test('asynchronous scans: their size follows from what there is, and what is set must fit', async (t) => {
  const MIB = 1024 * 1024;
  const ample = { UPLOAD_MEMORY_MB: '512' };
  t.match(readConfig(ample), { asyncLimitBytes: 100 * MIB, asyncStoreBytes: 1024 * MIB, encryptionKey: null });
  t.equal(readConfig({ UPLOAD_MEMORY_MB: '64' }).asyncLimitBytes, 32 * MIB);
  t.equal(readConfig({ UPLOAD_MEMORY_MB: '16' }).asyncLimitBytes, 10 * MIB);
  t.equal(readConfig({ ...ample, SCAN_MAX_SIZE_MB: '50' }).asyncLimitBytes, 49 * MIB);
  t.match(readConfig({ ...ample, ASYNC_STORE_MB: '64' }), { asyncLimitBytes: 32 * MIB, asyncStoreBytes: 64 * MIB });
  const shared = { ...ample, PROCESSES: '4', REDIS_URL: 'redis://127.0.0.1', ASYNC_STORE_MB: '256' };
  t.match(readConfig(shared), { asyncLimitBytes: 32 * MIB, asyncStoreBytes: 64 * MIB });
  t.strictSame(problemsOf({ ...ample, ASYNC_MAX_MB: '200' }), ['ASYNC_MAX_MB must be below SCAN_MAX_SIZE_MB']);
  t.strictSame(problemsOf({ ...ample, ASYNC_MAX_MB: '100', ASYNC_STORE_MB: '199' }), [
    'ASYNC_STORE_MB must be at least twice ASYNC_MAX_MB, for each process',
  ]);
  t.strictSame(problemsOf({ ENCRYPTION_KEY: 'secret' }), ['ENCRYPTION_KEY must be 64 hexadecimal characters']);
  t.equal(readConfig({ ENCRYPTION_KEY: 'ab'.repeat(32) }).encryptionKey?.length, 32);
});
