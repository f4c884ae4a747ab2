// The clients that people use, as they come: curl, Python requests, Node's fetch, and a form streamed in chunks as Go does it.
import { execFile } from 'node:child_process';
import { createReadStream, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { temporaryFolder } from '../fixtures/folder.js';
import { eicar } from '../fixtures/samples.js';
import { API_KEY, startServer } from '../fixtures/server.js';

const run = promisify(execFile);
const server = await startServer({ t });
const directory = temporaryFolder(t);

const url = `${server.url}/api/v1/scans`;
const small = join(directory, 'eicar.com');
const large = join(directory, 'five.bin');
const refused = join(directory, 'fifty.bin');
writeFileSync(small, eicar());
writeFileSync(large, Buffer.alloc(5_000_000, 'sluice'));
writeFileSync(refused, Buffer.alloc(50 * 1024 * 1024, 'x'));

const infected = { filename: 'eicar.com', infected: true, sizeInBytes: 68 };
const clean = { filename: 'five.bin', infected: false, sizeInBytes: 5_000_000 };
const tooLarge = { error: 'Scan failed', message: 'File size exceeds limit: 10MB' };

t.test('curl', async (t) => {
  const curl = async (file: string, ...options: string[]): Promise<unknown> => {
    const common = ['-s', '--max-time', '30', '-H', `X-API-KEY: ${API_KEY}`, '-F', `file=@${file}`, url];
    return JSON.parse((await run('curl', [...options, ...common])).stdout);
  };
  for (const options of [[], ['-H', 'Expect:'], ['-H', 'Expect: 100-continue'], ['-H', 'Transfer-Encoding: chunked']]) {
    t.match(await curl(small, ...options), infected, options.join(' '));
    t.match(await curl(large, ...options), clean, options.join(' '));
    t.match(await curl(refused, ...options), tooLarge, options.join(' '));
  }
  t.match(await curl(refused, '-H', 'Expect:', '--limit-rate', '20M'), tooLarge, 'slowly');
});

t.test('Python requests', async (t) => {
  const program = `
import json, requests, sys
url, key, small, large, refused = sys.argv[1:]
session = requests.Session()
session.headers['X-API-KEY'] = key
def chunks(path, name):
    yield b'--b\\r\\nContent-Disposition: form-data; name="file"; filename="%s"\\r\\n\\r\\n' % name
    with open(path, 'rb') as file:
        while data := file.read(65536):
            yield data
    yield b'\\r\\n--b--\\r\\n'
answers = []
for path, name in ((small, b'eicar.com'), (large, b'five.bin'), (refused, b'fifty.bin')):
    with open(path, 'rb') as file:
        answers.append(session.post(url, files={'file': file}, timeout=30).json())
    form = {'Content-Type': 'multipart/form-data; boundary=b'}
    answers.append(session.post(url, data=chunks(path, name), headers=form, timeout=30).json())
print(json.dumps(answers))
`;
  const { stdout } = await run('/usr/bin/python3', ['-c', program, url, API_KEY, small, large, refused]);
  t.match(JSON.parse(stdout), [infected, infected, clean, clean, tooLarge, tooLarge]);
});

t.test("Node's fetch", async (t) => {
  const post = async (content: Buffer, name: string): Promise<unknown> => {
    const form = new FormData();
    form.append('file', new Blob([content]), name);
    const response = await fetch(url, { method: 'POST', body: form, headers: { 'X-API-KEY': API_KEY } });
    return await response.json();
  };
  t.match(await post(eicar(), 'eicar.com'), infected);
  t.match(await post(Buffer.alloc(5_000_000, 'sluice'), 'five.bin'), clean);
  t.match(await post(Buffer.alloc(50 * 1024 * 1024, 'x'), 'fifty.bin'), tooLarge);
});

t.test('a form streamed in chunks of unknown total length', async (t) => {
  const post = (path: string, name: string): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const outgoing = request(url, {
        method: 'POST',
        headers: { 'X-API-KEY': API_KEY, 'Content-Type': 'multipart/form-data; boundary=b' },
      });
      outgoing.on('error', reject).on('response', (response) => {
        let body = '';
        response.setEncoding('utf8').on('data', (text: string) => {
          body += text;
        });
        response.on('end', () => resolve(JSON.parse(body)));
      });
      outgoing.write(`--b\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\n\r\n`);
      const file = createReadStream(path);
      file.on('end', () => outgoing.end('\r\n--b--\r\n'));
      file.pipe(outgoing, { end: false });
    });
  t.match(await post(small, 'eicar.com'), infected);
  t.match(await post(large, 'five.bin'), clean);
  t.match(await post(refused, 'fifty.bin'), tooLarge);
});
