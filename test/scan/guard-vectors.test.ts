// URLs of public suites (shared/vectors beside the project), followed through a stub resolver and stub redirects as a download would.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { z } from 'zod';
import { createGuard } from '../../src/scan/guard.js';

const Addresses = z.array(z.string());
const Expected = z.enum(['block', 'allow']);

const Vector = z.object({
  id: z.string(),
  url: z.string(),
  expect: Expected,
  why: z.string(),
  tier: z.enum(['must', 'policy']),
  resolves: Addresses.optional(),
  /** What the resolver answers the first time, the second time, ... */
  resolvesSequence: z.array(Addresses).optional(),
  redirect: z.string().optional(),
  redirectResolves: Addresses.optional(),
});
type Vector = z.infer<typeof Vector>;

interface Decision {
  readonly id: string;
  readonly ours: z.infer<typeof Expected>;
  readonly why: string;
}

function decision(id: string, ours: Decision['ours'], why: string): Decision {
  return { id, ours, why };
}

/** Where public suites differ: what Sluice does, and why. */
const decisions: readonly Decision[] = [
  decision('ssrf-091', 'block', 'one bad answer spoils the host: nobody has an honest reason to mix them'),
  decision(
    'ssrf-117',
    'block',
    '192.88.99.0/24 is in the registry, deprecated; every range of the registry is refused',
  ),
  decision(
    'ssrf-119',
    'block',
    'anycast is answered by the nearest machine, which is one of ours; no files live there',
  ),
  decision(
    'ssrf-149',
    'block',
    'NAT64 is a door of the own network; the operator of an IPv6-only one may open the range',
  ),
  decision('ssrf-161', 'block', 'an ISATAP router would unwrap it to the metadata service, whatever the prefix'),
  decision('ssrf-215', 'block', 'a metadata name is refused by name, wherever it points'),
  decision('ssrf-235', 'block', 'white space is refused, never repaired: readers differ on what is left'),
  decision('ssrf-237', 'block', 'RFC 9110 section 4.2.4: credentials in a URL mislead; and we would have to keep them'),
  decision('ssrf-247', 'block', 'control characters are refused, never repaired'),
  decision('ssrf-265', 'block', 'browsers block SSH as well'),
  decision('ssrf-267', 'block', 'browsers block SMTP as well: HTTP there can send mail'),
  decision(
    'ssrf-355',
    'allow',
    'next to documentation and in 2000::/3; a list of what is assigned today would be stale soon',
  ),
  // Against the proposal of the vectors.
  decision(
    'ssrf-357',
    'block',
    'IPv4-mapped is no address of the public network; whoever means 8.8.8.8 can write that',
  ),
  decision('ssrf-359', 'allow', 'a public address in decimal; the URL parser reads it as every browser does'),
  decision('ssrf-365', 'allow', 'the name is judged as the URL parser normalises it: example.com'),
];

const guard = createGuard({ allowNetworks: [] });

interface Hop {
  readonly url: string;
  readonly answers: readonly string[] | undefined;
}

/** Null: the hop may be dialled. */
function whyStopped({ url, answers }: Hop): string | null {
  const checked = guard.checkUrl(url);
  if (!checked.allowed) return checked.reason;
  // Without a stub answer the host is an address, which checkUrl has judged.
  if (answers === undefined) return /^[[\d]/.test(checked.url.hostname) ? null : 'the vector has no answer for it';
  if (answers.length === 0) return 'the name does not resolve';
  for (const answer of answers) {
    const address = guard.checkAddress(answer);
    if (!address.allowed) return `an answer: ${address.reason}`;
  }
  return null;
}

/** One list of hops for every turn that the resolver can take; each must come out alike. */
function walks({ url, resolves, resolvesSequence, redirect, redirectResolves }: Vector): Hop[][] {
  if (resolvesSequence !== undefined) return resolvesSequence.map((answers) => [{ url, answers }]);
  const hops: Hop[] = [{ url, answers: resolves }];
  if (redirect !== undefined) hops.push({ url: new URL(redirect, url).href, answers: redirectResolves });
  return [hops];
}

/** The vectors lie beside the project or above it; null where they weren't delivered. */
function findVectors(): string | null {
  for (let folder = dirname(fileURLToPath(import.meta.url)); folder !== dirname(folder); folder = dirname(folder)) {
    const path = join(folder, 'shared/vectors/ssrf.jsonl');
    if (existsSync(path)) return path;
  }
  return null;
}

const vectorsPath = findVectors();
if (vectorsPath === null) {
  t.pass('shared/vectors is absent: the tables of the other guard tests stand for themselves');
} else {
  const lines = readFileSync(vectorsPath, 'utf8').split('\n').filter(Boolean);
  const vectors = lines.map((line) => Vector.parse(JSON.parse(line)));
  const policies = new Map(decisions.map((each) => [each.id, each]));

  t.test('every URL of the public suites ends as it should', async (t) => {
    for (const vector of vectors) {
      const policy = vector.tier === 'policy' ? policies.get(vector.id) : undefined;
      if (vector.tier === 'policy' && policy !== undefined) t.comment(`${vector.id} ${policy.ours}: ${policy.why}`);
      for (const hops of walks(vector)) {
        const stopped = hops.map(whyStopped);
        // Before the last hop a redirect must have been answered: the vectors redirect from public hosts.
        if (hops.length > 1) t.equal(stopped[0], null, `${vector.id} reaches the redirect`);
        const outcome = stopped.some((reason) => reason !== null) ? 'block' : 'allow';
        const expected = policy === undefined ? vector.expect : policy.ours;
        t.equal(outcome, expected, `${vector.id} ${JSON.stringify(vector.url)} ${vector.why} <- ${stopped.join()}`);
      }
    }
  });

  t.test('every policy line is decided here', async (t) => {
    const open = vectors.filter(({ tier, id }) => tier === 'policy' && !policies.has(id));
    t.same(
      open.map(({ id, url }) => `${id} ${url}`),
      [],
    );
  });
}
