// Configuration: defaults, what is refused (all of it at once, never with its value), and what an empty variable means.
import { delimiter, resolve } from 'node:path';
import t from 'tap';
import { ConfigError, readConfig, variableNames } from '../src/config.js';
import { ownSignaturesDirectory } from '../src/paths.js';

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    readConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

t.test('without any variable the service has everything it needs', async (t) => {
  const config = readConfig({});
  t.match(config, {
    port: 8080,
    host: '127.0.0.1',
    baseUrl: null,
    dataDirectory: resolve('data'),
    databaseUrl: null,
    encryptedArchives: 'allow',
    appEnv: 'PRODUCTION',
    logLevel: 'info',
    scanQueue: 1024,
    scanTimeoutMs: 60_000,
    scanLimits: { maxScanSizeBytes: 200 * 1024 * 1024, maxFiles: 10_000, maxRecursion: 17 },
    signaturesPollMs: 30_000,
    reload: 'concurrent',
    signaturesMirror: null,
    signatureUrls: [],
    uploadTimeoutMs: 120_000,
    uploadWaitMs: 15_000,
    bootstrap: { email: null, password: null, apiKey: null, plan: 'BUSINESS' },
  });
  t.ok(config.scanThreads >= 1);
  t.ok(config.uploadMemoryBytes >= 64 * 1024 * 1024);
  t.strictSame(Object.fromEntries(config.plans), { FREE: 50, PRO: 1_000, BUSINESS: 10_000 });
  t.equal(config.signatureDirectories.at(-1), ownSignaturesDirectory);
});

t.test('an empty variable is an unset one, for each of them', async (t) => {
  const empty = Object.fromEntries(variableNames.map((name) => [name, '']));
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
    uploadMemoryBytes: 16 * 1024 * 1024,
    signaturesMirror: 'https://mirror.example.org/clamav',
    signatureUrls: ['https://a.example.org/x.ndb', 'http://b.example.org:8080/y/z.hdb'],
    scanLimits: { maxScanSizeBytes: 11 * 1024 * 1024 },
    encryptedArchives: 'reject',
    bootstrap: { plan: 'LARGE_2', apiKey: '0123456789abcdef0123456789abcdef' },
  });
  t.strictSame(
    [...config.plans],
    [
      ['SMALL', 1],
      ['LARGE_2', 999_999_999],
    ],
  );
});

t.test('several signature folders replace the default ones, in their order', async (t) => {
  const { signatureDirectories } = readConfig({ SIGNATURES_DIR: ['/b', 'a', '', '/c/../d'].join(delimiter) });
  t.strictSame(signatureDirectories, ['/b', resolve('a'), '/d']);
});

/** Values that are recognisable wherever they might be printed. */
const wrong: Record<string, string> = {
  PORT: '70001',
  BASE_URL: 'ftp://wrong-base-url',
  DATABASE_URL: 'mysql://user:wrong-database@host/db',
  SCAN_THREADS: '0',
  SCAN_QUEUE: 'wrong-queue',
  SCAN_TIMEOUT_MS: '99',
  SCAN_MAX_SIZE_MB: '10',
  SCAN_MAX_FILES: '0',
  SCAN_MAX_RECURSION: '101',
  SIGNATURES_POLL_SECONDS: '86401',
  SIGNATURES_MIRROR: 'wrong-mirror',
  SIGNATURES_URLS: 'https://wrong.example.org/',
  RELOAD: 'wrong-mode',
  VERDICT_CACHE_MB: '65537',
  UPLOAD_TIMEOUT_MS: '1e5',
  UPLOAD_WAIT_MS: '-1',
  UPLOAD_MEMORY_MB: '15',
  ENCRYPTED_ARCHIVES: 'wrong-policy',
  APP_ENV: 'wrong-env'.repeat(10),
  LOG_LEVEL: 'wrong-level',
  BOOTSTRAP_EMAIL: 'wrong-email',
  BOOTSTRAP_PASSWORD: 'wrong-pass',
  BOOTSTRAP_API_KEY: 'WRONG-KEY',
};

t.test('every problem is listed at once, and no value with it', async (t) => {
  const problems = problemsOf(wrong);
  t.strictSame(problems.map((problem) => problem.split(' ')[0]).sort(), Object.keys(wrong).sort());
  t.notMatch(problems.join('\n'), /wrong|WRONG|70001|1e5|mysql|ftp/);
  t.throws(() => readConfig(wrong), {
    message: /^The configuration has 23 problems:\n {2}PORT must be at most 65535\n/,
  });
  t.throws(() => readConfig({ PORT: 'x' }), {
    message: 'The configuration has a problem:\n  PORT must be a whole number',
  });
});

t.test('plans that are none are refused', async (t) => {
  const bad = [
    'FREE',
    'FREE:',
    'FREE:0',
    'FREE:-1',
    'FREE:1.5',
    'FREE:1000000000',
    'free:5',
    ':5',
    'FREE:5,',
    'A:1;B:2',
  ];
  for (const plans of bad) t.match(problemsOf({ PLANS: plans }), [/^PLANS must look like FREE:50,PRO:1000/], plans);
  t.match(problemsOf({ PLANS: 'FREE:50' }), [/^BOOTSTRAP_PLAN must be one of FREE$/], 'the default plan is gone');
  t.strictSame(problemsOf({ PLANS: 'FREE:50', BOOTSTRAP_PLAN: 'FREE' }), []);
});
