// The lines of shared/vectors/ssrf.jsonl (beside the project), and what Sluice decides where public suites differ.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

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
export type Vector = z.infer<typeof Vector>;

export interface Decision {
  readonly id: string;
  readonly ours: z.infer<typeof Expected>;
  readonly why: string;
}

function decision(id: string, ours: Decision['ours'], why: string): Decision {
  return { id, ours, why };
}

/** Where public suites differ: what Sluice does, and why. */
export const decisions: readonly Decision[] = [
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

/** The vectors lie beside the project or above it; null where they weren't delivered. */
function findVectors(): string | null {
  for (let folder = dirname(fileURLToPath(import.meta.url)); folder !== dirname(folder); folder = dirname(folder)) {
    const path = join(folder, 'shared/vectors/ssrf.jsonl');
    if (existsSync(path)) return path;
  }
  return null;
}

/** Null where they weren't delivered. */
export function readVectors(): Vector[] | null {
  const path = findVectors();
  if (path === null) return null;
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => Vector.parse(JSON.parse(line)));
}

/** What Sluice does with the URL of a line. */
export function expectedOf(vector: Vector): 'block' | 'allow' {
  return decisions.find(({ id }) => vector.tier === 'policy' && id === vector.id)?.ours ?? vector.expect;
}
