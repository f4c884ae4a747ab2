// The table of URLs, each followed through a stub resolver and stub redirects as a download would follow it.
import t from 'tap';
import { createGuard } from '../../src/download/guard.js';
import { type UrlCase, urlCases } from './url-table.js';

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
  if (answers === undefined) return /^[[\d]/.test(checked.url.hostname) ? null : 'the table has no answer for it';
  if (answers.length === 0) return 'the name does not resolve';
  for (const answer of answers) {
    const address = guard.checkAddress(answer);
    if (!address.allowed) return `an answer: ${address.reason}`;
  }
  return null;
}

/** One list of hops for every turn that the resolver can take; each must come out alike. */
function walks({ url, resolves, resolvesSequence, redirect, redirectResolves }: UrlCase): Hop[][] {
  if (resolvesSequence !== undefined) return resolvesSequence.map((answers) => [{ url, answers }]);
  const hops: Hop[] = [{ url, answers: resolves }];
  if (redirect !== undefined) hops.push({ url: new URL(redirect, url).href, answers: redirectResolves });
  return [hops];
}

t.test('every URL of the table ends as it should', async (t) => {
  for (const each of urlCases) {
    for (const hops of walks(each)) {
      const stopped = hops.map(whyStopped);
      // Before the last hop a redirect must have been answered: those of the table come from public hosts.
      if (hops.length > 1) t.equal(stopped[0], null, `${each.url} reaches the redirect`);
      const outcome = stopped.some((reason) => reason !== null) ? 'block' : 'allow';
      t.equal(outcome, each.expected, `${JSON.stringify(each.url)} ${each.why ?? ''} <- ${stopped.join()}`);
    }
  }
});
