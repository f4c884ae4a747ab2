// Who may import whom. The rooms of src/ lie in rows: imports go downward only, and rooms of one row don't import each other.
// A room is given as the pattern of its files' paths below src/. The first and the last row are one room each.
const rows = [
  ['(main\\.ts$|cli/)'],
  ['supervisor/', 'service/'],
  ['clamd/', 'icap/', 'operator/'],
  ['scan/', 'webhooks/'],
  ['download/', 'admission/', 'account/', 'history/', 'billing/'],
  ['engine/', 'http/', 'store/'],
  [
    '(config/|waiting/|(errors|error-text|limits|log|paths|process-addon|cores|filename|ids|listening|peers|door|recent-table|wire-text)\\.ts$)',
  ],
];

function rowRules() {
  return rows.flatMap((rooms, row) => {
    const below = rows.slice(row + 1).flat();
    return rooms.map((room) => ({
      name: `row-${row + 1}-${room.replace(/\W+/g, '-').replace(/^-|-$/g, '')}`,
      comment: 'A file imports from its own room and from the rows below it.',
      severity: 'error',
      from: { path: `^src/${room}` },
      to: { path: '^src/', pathNot: [room, ...below].map((allowed) => `^src/${allowed}`) },
    }));
  });
}

function soleImporters(name, packages, importers) {
  return {
    name: `sole-importers-${name}`,
    comment: `In src/, only ${importers} may import this.`,
    severity: 'error',
    from: { path: '^src/', pathNot: importers },
    to: { path: packages },
  };
}

module.exports = {
  forbidden: [
    ...rowRules(),
    {
      name: 'every-file-in-a-room',
      comment: 'A file of src/ that no row knows may import nothing; what it is imported by breaks the rules above.',
      severity: 'error',
      from: { path: '^src/', pathNot: ['^src/dashboard/', ...rows.flat().map((room) => `^src/${room}`)] },
      to: {},
    },
    {
      name: 'scan-knows-no-protocol',
      comment: 'Only src/scan/http/ knows HTTP: another protocol hands its contents to the same scan.',
      severity: 'error',
      from: { path: '^src/scan/(?!http/)' },
      to: { path: '^src/(http|scan/http|clamd|icap)/' },
    },
    {
      name: 'web-client-apart',
      comment: 'The web client and the server share nothing but what goes over the wire.',
      severity: 'error',
      from: { path: '^src/dashboard/' },
      to: { path: '^src/', pathNot: '^src/dashboard/' },
    },
    {
      name: 'server-without-web-client',
      severity: 'error',
      from: { path: '^(src|test|bench)/', pathNot: '^src/dashboard/' },
      to: { path: '^src/dashboard/' },
    },
    soleImporters('lru', '^node_modules/lru-cache/', '^src/recent-table\\.ts$'),
    // uWebSockets.js is loaded by the names of its builds, which no import shows: what knows its interface is in one folder.
    soleImporters('uws', '^src/http/uws/', '^src/http/(server\\.ts$|uws/)'),
    soleImporters('node-http', '^src/http/node/', '^src/http/(server\\.ts$|node/)'),
    soleImporters('piscina', '^node_modules/piscina/', '^src/engine/threads/thread-slot\\.ts$'),
    soleImporters('postgres', '^node_modules/(postgres|@electric-sql)/', '^src/store/'),
    soleImporters('redis', '^node_modules/ioredis/', '^src/store/redis/redis\\.ts$'),
    soleImporters('stripe', '^node_modules/stripe/', '^src/billing/stripe\\.ts$'),
    soleImporters('jose', '^node_modules/jose/', '^src/account/(tokens|issuer-keys)\\.ts$'),
    soleImporters('undici', '^node_modules/undici/', '^src/(download/origin|http/fetch)\\.ts$'),
    {
      name: 'engines-behind-their-room',
      comment: 'No other room knows which engines there are: it reads engine.ts, signatures.ts and the like.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/engine/' },
      to: { path: '^src/engine/(?!threads/)[^/]+/' },
    },
    soleImporters('addon', '(\\.node$|^native/)', '^src/engine/clamav/addon\\.ts$'),
    {
      name: 'scan-thread-stays-small',
      comment: 'Every scan thread loads all that its entry reaches.',
      severity: 'error',
      from: { path: '^src/engine/threads/worker\\.ts$' },
      to: {
        path: '^src/',
        pathNot:
          '^src/(engine/(threads/(worker|task|sandbox|ring|bell)|clamav/addon|yara/yara-x|verdict|databases)|paths|process-addon|cores|error-text)\\.ts$',
        reachable: true,
      },
    },
    {
      name: 'no-tests-in-src',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|bench)/' },
    },
    {
      name: 'no-dev-dependencies-in-src',
      severity: 'error',
      // What the web client is made of is bundled.
      from: { path: '^src/', pathNot: '^src/dashboard/' },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'] },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-orphans', severity: 'error', from: { orphan: true, pathNot: '\\.d\\.ts$' }, to: {} },
    { name: 'every-import-resolves', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    doNotFollow: { path: '(^|/)node_modules/' },
    tsConfig: { fileName: 'tsconfig.json' },
    // Imports of types count as well.
    tsPreCompilationDeps: true,
    preserveSymlinks: true,
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types', 'node', 'default'] },
  },
};
