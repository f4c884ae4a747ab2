// Clients of clamd as people use them, unchanged: libraries of npm, of Python and of Perl, and clamdtop.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageJsonPath } from '../../src/paths.js';
import { temporaryFolder } from '../fixtures/folder.js';
import { ask, bytesOf, EICAR, startOurs } from './client.js';

const NAME = 'Sluice.Test.EICAR.UNOFFICIAL';

const folder = temporaryFolder(t);
writeFileSync(join(folder, 'infected'), EICAR);
writeFileSync(join(folder, 'clean'), 'clean');
const { server, unix, tcp } = await startOurs({ CLAMD_PATHS: folder });
t.teardown(() => server.stop());

/** What a program prints that is given socket, port and folder. */
function run(command: string, args: readonly string[]): string {
  const all = [...args, unix.path, String(tcp.port), folder];
  const ran = spawnSync(command, all, { encoding: 'utf8', timeout: 120_000, cwd: join(packageJsonPath, '..') });
  if (ran.status !== 0) throw new Error(`${ran.status} ${ran.stdout} ${ran.stderr} ${ran.error}`);
  return ran.stdout;
}

t.test('clamscan of npm, by the socket and by the port', async (t) => {
  const program = `
const NodeClam = require('clamscan');
const { createReadStream } = require('node:fs');
const [socket, port, folder] = process.argv.slice(1);
(async () => {
  for (const place of [{ socket }, { host: '127.0.0.1', port: Number(port) }]) {
    const clam = await new NodeClam().init({ clamdscan: { ...place, timeout: 60000, localFallback: false, path: null, active: true } });
    const say = ({ isInfected, viruses }) => console.log(isInfected, viruses.join());
    console.log((await clam.getVersion()).trim().split('/')[0].replace(/[0-9.]+/, 'X'));
    say(await clam.scanStream(createReadStream(folder + '/infected')));
    say(await clam.scanStream(createReadStream(folder + '/clean')));
    say(await clam.isInfected(folder + '/infected'));
    say(await clam.isInfected(folder + '/clean'));
  }
})().catch((error) => { console.error(error); process.exit(1); });`;
  const once = `ClamAV X\ntrue ${NAME}\nfalse \ntrue ${NAME}\nfalse \n`;
  t.equal(run(process.execPath, ['-e', program]), once + once);
});

t.test('clamdjs of npm', async (t) => {
  const program = `
const clamd = require('clamdjs');
const [, port, folder] = process.argv.slice(1);
(async () => {
  const scanner = clamd.createScanner('127.0.0.1', Number(port));
  console.log(await clamd.ping('127.0.0.1', Number(port), 10000));
  console.log((await clamd.version('127.0.0.1', Number(port), 10000)).startsWith('ClamAV '));
  console.log(clamd.isCleanReply(await scanner.scanFile(folder + '/clean', 10000, 65536)));
  console.log(clamd.isCleanReply(await scanner.scanFile(folder + '/infected', 10000, 65536)));
  console.log(clamd.isCleanReply(await scanner.scanBuffer(Buffer.alloc(300000, 'a'), 10000, 65536)));
})().catch((error) => { console.error(error); process.exit(1); });`;
  t.equal(run(process.execPath, ['-e', program]), 'true\ntrue\ntrue\nfalse\ntrue\n');
});

t.test('pyclamd of Python', async (t) => {
  const program = `
import sys, pyclamd
path, port, folder = sys.argv[1:]
for clamd in (pyclamd.ClamdUnixSocket(filename=path), pyclamd.ClamdNetworkSocket('127.0.0.1', int(port))):
    print(clamd.ping(), clamd.version().startswith('ClamAV '), 'POOLS' in clamd.stats())
    print(clamd.scan_stream(open(folder + '/infected', 'rb').read()), clamd.scan_stream(b'clean'))
    print(clamd.scan_file(folder + '/infected'), clamd.scan_file(folder + '/clean'))
    print(list(clamd.multiscan_file(folder).values()), list(clamd.contscan_file(folder).values()))
print(pyclamd.ClamdUnixSocket(filename=path).reload())`;
  const found = `('FOUND', '${NAME}')`;
  const once = [
    'True True True',
    `{'stream': ${found}} None`,
    `{'${folder}/infected': ${found}} None`,
    `[${found}] [${found}]`,
  ];
  const [reloading, ...others] = run('/usr/bin/python3', ['-c', program]).trimEnd().split('\n').reverse();
  t.strictSame(others.reverse(), [...once, ...once]);
  t.match(reloading, /RELOADING/);
});

t.test('ClamAV::Client of Perl', async (t) => {
  const program = `
use ClamAV::Client;
my ($path, $port, $folder) = @ARGV;
for my $scanner (ClamAV::Client->new(socket_name => $path), ClamAV::Client->new(socket_host => '127.0.0.1', socket_port => $port)) {
  print $scanner->ping() ? "up\\n" : "down\\n";
  my ($file, $name) = $scanner->scan_path("$folder/infected");
  print "$name\\n";
  my %all = $scanner->scan_path_complete($folder);
  print join(',', values %all), "\\n";
}`;
  t.equal(run('perl', ['-e', program]), `up\n${NAME}\n${NAME}\n`.repeat(2));
});

t.test('what clamdtop asks for, again and again on one connection', async (t) => {
  const answer = await ask(unix, bytesOf('nIDSESSION\nnVERSION\nnSTATS\nnSTATS\nnEND\n'));
  const [version, first, second] = answer.split(/\n?\d+: /).slice(1);
  t.match(version, /^ClamAV /);
  for (const stats of [first, second]) {
    t.match(stats, /^POOLS: 1\n\nSTATE: VALID PRIMARY\nTHREADS: live \d+ {2}idle \d+ max \d+ idle-timeout \d+\n/);
    t.match(stats, /QUEUE: \d+ items\n/);
    t.match(stats, /\nMEMSTATS: heap [\d.NA/M]+ mmap \S+ used \S+ free \S+ releasable \S+ pools \d+ pools_used \S+ /);
  }
});

t.test('clamdtop draws the threads, on a terminal', async (t) => {
  const configPath = join(folder, 'clamdtop.conf');
  writeFileSync(configPath, `LocalSocket ${unix.path}\n`);
  const command = `stty rows 40 cols 120; exec clamdtop --config-file=${configPath}`;
  const terminal = spawn('script', ['-qec', command, '/dev/null'], {
    env: { ...process.env, TERM: 'xterm' },
    timeout: 60_000,
  });
  let drawn = '';
  terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
    drawn += text;
    if (/Primary threads/.test(drawn)) terminal.stdin.end('q');
  });
  const [status] = await once(terminal, 'close');
  t.equal(status, 0, drawn);
});
