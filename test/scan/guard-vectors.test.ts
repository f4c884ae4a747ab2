// URLs of public suites (shared/vectors beside the project), followed through a stub resolver and stub redirects as a download would.
import t from 'tap';
import { createGuard } from '../../src/scan/guard.js';
import { decisions, expectedOf, readVectors, type Vector } from './ssrf-vectors.js';

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

const vectors = readVectors();
if (vectors === null) {
  t.pass('shared/vectors is absent: the tables of the other guard tests stand for themselves');
} else {
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
        t.equal(
          outcome,
          expectedOf(vector),
          `${vector.id} ${JSON.stringify(vector.url)} ${vector.why} <- ${stopped.join()}`,
        );
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
