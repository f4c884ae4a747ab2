// Verdicts that need no scan, of this process and of others with the same engine; and whether it was this account that has scanned.
import { hash } from 'node:crypto';
import type { Engine } from '../../engine/engine.js';
import type { LookedAt, VerdictCache } from './cache.js';
import { SHARED_FROM_BYTES, type SharedVerdicts } from './shared.js';

/** Of an engine, what its verdicts are remembered by. */
type Looking = Pick<Engine, 'epoch' | 'identity'>;

export interface KnownVerdicts {
  /** What this very engine, or its like on another node, has said of the content; null: it must be scanned. Never rejects. */
  find(content: Described, engine: Looking, account: string): Known | null | Promise<Known | null>;
  /** `engine`: the one that has looked; `account`: for whom. */
  keep(content: Described, engine: Looking, account: string, found: LookedAt): void;
}

export interface Known extends LookedAt {
  /** The account has scanned this content before. The client must not learn what others have scanned. */
  readonly isOwn: boolean;
}

export interface Described {
  readonly sizeBytes: number;
  readonly sha256: string;
}

export interface KnownVerdictsOptions {
  readonly cache: VerdictCache;
  /** Null: verdicts are not shared with other processes. */
  readonly shared: SharedVerdicts | null;
  /** `account`: nothing that others have scanned is used, not even without saying so. */
  readonly scope: 'shared' | 'account';
}

/**
 * A verdict is remembered under two digests: that of the content, for everybody, and one of the content and the account, which says
 * that this account has scanned it. With the scope `account` there is the second one alone.
 */
export function createKnownVerdicts({ cache, shared, scope }: KnownVerdictsOptions): KnownVerdicts {
  function tellNodes(digest: string, { sizeBytes }: Described, { identity }: Looking, found: LookedAt): void {
    if (identity !== null && sizeBytes >= SHARED_FROM_BYTES) shared?.set(digest, identity, found);
  }

  /** What others have found is this account's own from here on. */
  function adopt(others: LookedAt, content: Described, engine: Looking, account: string): Known {
    const digest = ownDigest(account, content.sha256);
    cache.set(digest, engine.epoch, others);
    tellNodes(digest, content, engine, others);
    return { ...others, isOwn: false };
  }

  /** `here`: what is known of it in this process. The account may have scanned the content on another node. */
  async function askNodes(
    here: LookedAt | null,
    content: Described,
    engine: Looking,
    account: string,
  ): Promise<Known | null> {
    const { identity } = engine;
    if (shared === null || identity === null) return null;
    const digest = ownDigest(account, content.sha256);
    const [own, anybody] = await Promise.all([
      shared.get(digest, identity),
      here === null && scope === 'shared' ? shared.get(content.sha256, identity) : here,
    ]);
    if (anybody !== null) cache.set(content.sha256, engine.epoch, anybody);
    if (own === null) return anybody === null ? null : adopt(anybody, content, engine, account);
    cache.set(digest, engine.epoch, own);
    return { ...own, isOwn: true };
  }

  return {
    find(content, engine, account) {
      const own = cache.get(ownDigest(account, content.sha256), engine.epoch);
      if (own !== null) return { ...own, isOwn: true };
      const here = scope === 'shared' ? cache.get(content.sha256, engine.epoch) : null;
      if (shared !== null && engine.identity !== null && content.sizeBytes >= SHARED_FROM_BYTES) {
        return askNodes(here, content, engine, account);
      }
      return here === null ? null : adopt(here, content, engine, account);
    },
    keep(content, engine, account, found) {
      const own = ownDigest(account, content.sha256);
      for (const digest of scope === 'shared' ? [content.sha256, own] : [own]) {
        cache.set(digest, engine.epoch, found);
        tellNodes(digest, content, engine, found);
      }
    },
  };
}

/** Of 64 hexadecimal characters, as that of a content. It shows nothing of the account or the content to a reader who doesn't know both. */
function ownDigest(account: string, sha256: string): string {
  return hash('sha256', `${account} ${sha256}`);
}
