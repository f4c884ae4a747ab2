// Where the stores and the service itself are: what DATABASE_URL, REDIS_URL and BASE_URL may say.
import t from 'tap';
import { readConfig } from '../../src/config/config.js';
import { problemsOf } from './problems.js';

t.test('Redis is named alone, as a cluster or by its Sentinels', (t) => {
  const one = 'redis+sentinel://:secret@one:26379,two/main';
  for (const url of ['redis://a', 'rediss://a,rediss://b', 'redis+cluster://a', one, `${one}/2?sentinelPassword=x`]) {
    t.strictSame(problemsOf({ REDIS_URL: url }), [], url);
  }
  for (const url of ['redis+sentinel://one', 'redis+sentinel://one/main/x', `redis://a,${one}`, 'redis+other://a']) {
    t.match(problemsOf({ REDIS_URL: url }), [/^REDIS_URL must be/], url);
  }
  const wrong = [
    'redis://:secret@a:99999',
    'redis://a,redis://b:x',
    'redis+sentinel://:secret@one:x/main',
    'redis://a/x',
  ];
  for (const url of [...wrong, 'redis://:50%@a']) {
    t.strictSame(problemsOf({ REDIS_URL: url }), ['REDIS_URL is not a valid URL, or a comma list of them'], url);
  }
  t.end();
});

t.test('a database that no driver could reach is a wrong configuration, and never quoted', (t) => {
  for (const [url, problem] of [
    ['postgres://me:secret@[/sluice', 'is not a valid URL'],
    ['postgres://me:secret@db:99999/sluice', 'is not a valid URL'],
    ['postgres://me:12/34@db/sluice', 'has a user or a password with one of / ? # in it: write them as %2F %3F %23'],
    ['postgres://me:50%@db/sluice', 'has a % that is not percent-encoded: write it as %25'],
  ] as const) {
    t.strictSame(problemsOf({ DATABASE_URL: url }), [`DATABASE_URL ${problem}`], url);
  }
  for (const url of ['postgres://me:50%25@db:5432/sluice?sslmode=require', 'postgres:///sluice?host=/run/postgresql']) {
    t.strictSame(problemsOf({ DATABASE_URL: url }), [], url);
  }
  t.end();
});

t.test('no store is at port 0', (t) => {
  for (const url of [
    'redis://:secret@a:0',
    'redis://a,redis://b:0',
    'redis+cluster://a:0',
    'redis+sentinel://one,two:0/main',
  ]) {
    t.strictSame(problemsOf({ REDIS_URL: url }), ['REDIS_URL has port 0, on which no store can be'], url);
  }
  for (const url of ['postgres://me:secret@db:0/sluice', 'postgres:///sluice?host=/run/postgresql&port=0']) {
    t.strictSame(problemsOf({ DATABASE_URL: url }), ['DATABASE_URL has port 0, on which no store can be'], url);
  }
  t.end();
});

t.test('addresses are made of BASE_URL by what is put behind it', (t) => {
  for (const url of [
    'https://a.example/?x=1',
    'https://a.example/#x',
    'https://a.example?',
    'https://a.example:99999',
    'https://',
    'https://me:secret@a.example',
  ]) {
    t.strictSame(
      problemsOf({ BASE_URL: url }),
      ['BASE_URL must be an http or https URL, without a user, ? and #'],
      url,
    );
  }
  for (const url of ['https://a.example', 'HTTP://[::1]:8080/scan/'])
    t.strictSame(problemsOf({ BASE_URL: url }), [], url);
  t.end();
});

t.test('keys of an issuer that no request could fetch are a wrong configuration', (t) => {
  const issuer = { JWT_ISSUER: 'https://id.example', JWT_AUDIENCE: 'sluice' };
  for (const url of ['https://me:secret@id.example/jwks', 'https://me@id.example/jwks', 'http://id.example/jwks']) {
    t.strictSame(
      problemsOf({ ...issuer, JWT_JWKS_URL: url }),
      ['JWT_JWKS_URL must be an https URL without a user'],
      url,
    );
  }
  t.end();
});

t.test('IPv4 networks inside IPv6 are taken for what they are, as addresses are', (t) => {
  const { trustedProxies, urlAllowNetworks } = readConfig({
    TRUSTED_PROXIES: '::ffff:10.0.0.0/104, ::ffff:c000:201/128,fd00::/8',
    URL_ALLOW_NETWORKS: '::ffff:0:0/96',
  });
  t.strictSame(trustedProxies, ['10.0.0.0/8', '192.0.2.1/32', 'fd00::/8']);
  t.strictSame(urlAllowNetworks, ['0.0.0.0/0']);
  t.end();
});
