// Traces: a real exporter of the official SDK sends them to a collector, and each scan has one tree of spans whose times fit together.
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import t from 'tap';
import { z } from 'zod';
import { API_KEY, startServer } from '../fixtures/server.js';
import { until } from '../fixtures/until.js';
import { upload } from '../fixtures/upload.js';
import { databaseFolder } from '../native/engine.js';

const Value = z.looseObject({ stringValue: z.string().optional(), boolValue: z.boolean().optional() });
const Span = z.looseObject({
  name: z.string(),
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  startTimeUnixNano: z.string(),
  endTimeUnixNano: z.string(),
  attributes: z.array(z.looseObject({ key: z.string(), value: Value })),
});
const Sent = z.looseObject({
  resourceSpans: z.array(
    z.looseObject({
      resource: z.looseObject({ attributes: z.array(z.looseObject({ key: z.string(), value: Value })) }),
      scopeSpans: z.array(z.looseObject({ spans: z.array(Span) })),
    }),
  ),
});
type Span = z.infer<typeof Span>;

const spans: Span[] = [];
const services = new Set<string | undefined>();
const collector = createServer((request, response) => {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => {
    const { resourceSpans } = Sent.parse(JSON.parse(Buffer.concat(pieces).toString()));
    for (const { resource, scopeSpans } of resourceSpans) {
      services.add(resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue);
      for (const each of scopeSpans) spans.push(...each.spans);
    }
    response.setHeader('Content-Type', 'application/json').end('{}');
  });
});
await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
t.teardown(() => collector.close());
const { port } = collector.address() as AddressInfo;

const attribute = (span: Span | undefined, name: string): string | boolean | undefined => {
  const value = span?.attributes.find(({ key }) => key === name)?.value;
  return value?.stringValue ?? value?.boolValue;
};

const [ONE, OTHER] = ['Xk2#qZ9!vW', 'Yp5%rT8uB3'];
const [first, second] = [ONE, OTHER].map((text) => Buffer.from(text).toString('hex'));
const INFECTED = `${ONE} and ${OTHER}`;
// The last test that uses it stops it.
const server = await startServer({
  env: {
    SIGNATURES_DIR: databaseFolder(t, { 'a.ldb': `Test.Gated;Engine:81-255,Target:0;0&1;${first};${second}\n` }),
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    OTEL_SERVICE_NAME: 'scans-of-mail',
    OTEL_BSP_SCHEDULE_DELAY: '50',
  },
});
t.teardown(() => server.stop('SIGKILL'));

/** Of infected content, as it is. */
function scan(traceparent: string): Promise<Response> {
  const headers = {
    'X-API-KEY': API_KEY,
    'X-Filename': 'secret-name.com',
    'Content-Type': 'application/octet-stream',
    traceparent,
  };
  return fetch(`${server.url}/api/v1/scans`, { method: 'POST', body: INFECTED, headers });
}

t.test('a second look of engines behind gates is a span within the scan', async (t) => {
  const childrenOf = async (content: string): Promise<Span[]> => {
    const id = (await upload(server.url, content)).headers.get('x-scan-id');
    const root = await until(() => spans.find((span) => attribute(span, 'sluice.scan_id') === id));
    return spans.filter(({ parentSpanId }) => parentSpanId === root.spanId);
  };
  const found = await childrenOf(`both: ${INFECTED}`);
  const [scanning, looking] = ['scan', 'second look'].map((name) => found.find((span) => span.name === name));
  t.ok(scanning && looking);
  t.ok(BigInt(looking?.startTimeUnixNano ?? 0) >= BigInt(scanning?.startTimeUnixNano ?? 0), 'begins within it');
  t.ok(BigInt(looking?.endTimeUnixNano ?? 0) <= BigInt(scanning?.endTimeUnixNano ?? 0), 'ends within it');
  t.notOk((await childrenOf('neither')).some(({ name }) => name === 'second look'));
});

t.test('each scan is a tree of spans in the trace of its client', async (t) => {
  const trace = '0af7651916cd43dd8448eb211c80319c';
  const traceparent = `00-${trace}-b7ad6b7169203331-01`;
  const first = await scan(traceparent);
  const id = first.headers.get('x-scan-id');
  const rootOf = (of: string | null): Span | undefined =>
    spans.find((span) => span.name === 'scan' && attribute(span, 'sluice.scan_id') === of);
  const root = await until(() => rootOf(id));
  t.match(root, { traceId: trace, parentSpanId: 'b7ad6b7169203331' });
  t.equal(attribute(root, 'sluice.outcome'), 'infected');
  t.equal(attribute(root, 'sluice.protocol'), 'http');
  const children = spans.filter(({ parentSpanId }) => parentSpanId === root.spanId);
  t.strictSame(children.map(({ name }) => name).sort(), [
    'admit',
    'answer',
    'receive',
    'record',
    'scan',
    'second look',
    'wait',
  ]);
  for (const child of children) {
    t.equal(child.traceId, trace);
    t.ok(BigInt(child.startTimeUnixNano) >= BigInt(root.startTimeUnixNano), `${child.name} begins within it`);
    t.ok(BigInt(child.endTimeUnixNano) <= BigInt(root.endTimeUnixNano), `${child.name} ends within it`);
  }

  const again = await scan('not one');
  const known = await until(() => rootOf(again.headers.get('x-scan-id')));
  t.equal(attribute(known, 'sluice.cached'), true);
  t.equal(known.parentSpanId ?? '', '', 'what is no traceparent begins a trace of its own');
  t.notOk(
    spans.some((span) => span.parentSpanId === known.spanId && span.name === 'scan'),
    'no thread was at it',
  );

  const last = await upload(server.url, 'the last one');
  await server.stop();
  t.ok(rootOf(last.headers.get('x-scan-id')), 'a stop sends what waits');
  t.strictSame([...services], ['scans-of-mail']);
  t.notMatch(JSON.stringify(spans), 'secret-name', 'nothing of names');
});

t.test(
  'a collector that refuses, and then hangs, keeps nobody from scanning, and the service from no stop',
  async (t) => {
    const held: Socket[] = [];
    let refuses = true;
    const collector = createServer((request, response) => {
      if (refuses) response.writeHead(400).end();
      else held.push(request.socket);
    });
    await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
    const { port } = collector.address() as AddressInfo;
    t.teardown(() => {
      collector.close();
      for (const socket of held) socket.destroy();
    });
    const server = await startServer({
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, OTEL_BSP_SCHEDULE_DELAY: '50' },
    });
    t.teardown(() => server.stop('SIGKILL'));
    t.equal((await upload(server.url, 'a')).status, 200);
    await until(() => server.output().includes('traces are not sent'));
    refuses = false;
    t.equal((await upload(server.url, 'b')).status, 200);
    await until(() => held.length > 0);
    t.equal(await server.stop(), 0);
    t.match(server.output(), '"the collector of traces has not answered: the last ones are not sent"');
  },
);
