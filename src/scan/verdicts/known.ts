// Verdicts that need no scan, of this process and of others with the same engine; and whether it was this account that has scanned.
import { hash } from 'node:crypto';
import type { Engine } from '../../engine/engine.js';
import type { LookedAt, VerdictCache } from './cache.js';
import { SHARED_FROM_BYTES, type SharedVerdicts } from './shared.js';

/** Of an engine, what its verdicts are remembered by. */
type Looking = Pick<Engine, 'epoch' | 'identity'>;

export interface KnownVerdicts {
  /** Other nodes have verdicts as well. */
  readonly isShared: boolean;
  /** What this very engine has said of the content in this process; null: `elsewhere` must be asked, or it must be scanned. */
  here(content: Described, engine: Looking, account: string): Known | null;
  /** What its like on another node has said. Null, or a promise for it, which never rejects: it must be scanned. */
  elsewhere(content: Described, engine: Looking, account: string): Promise<Known | null> | null;
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
 * Nodes share a verdict under two digests: that of the content, for everybody, and one of the content and the account, which says
 * that this account has scanned it. With the scope `account` there is the second one alone.
 */
export function createKnownVerdicts({ cache, shared, scope }: KnownVerdictsOptions): KnownVerdicts {
  function asksNodes({ sizeBytes }: Described, { identity }: Looking): boolean {
    return shared !== null && identity !== null && sizeBytes >= SHARED_FROM_BYTES;
  }

  /** What others have found is this account's own from here on. */
  function adopt(found: LookedAt, content: Described, engine: Looking, account: string): Known {
    cache.set(content.sha256, engine.epoch, account, found);
    if (asksNodes(content, engine)) tell(ownDigest(account, content.sha256), engine, found);
    return known(found, false);
  }

  function tell(digest: string, { identity }: Looking, found: LookedAt): void {
    if (identity !== null) shared?.set(digest, identity, found);
  }

  /** The account may have scanned the content on another node. */
  async function askNodes(content: Described, engine: Looking, account: string): Promise<Known | null> {
    const { identity } = engine;
    if (shared === null || identity === null) return null;
    const here = scope === 'shared' ? cache.get(content.sha256, engine.epoch) : null;
    const [own, anybody] = await Promise.all([
      shared.get(ownDigest(account, content.sha256), identity),
      here === null && scope === 'shared' ? shared.get(content.sha256, identity) : here,
    ]);
    if (own === null) return anybody === null ? null : adopt(anybody, content, engine, account);
    cache.set(content.sha256, engine.epoch, account, own);
    return known(own, true);
  }

  return {
    isShared: shared !== null,
    here(content, engine, account) {
      const found = cache.get(content.sha256, engine.epoch);
      if (found === null) return null;
      if (found.isOf(account)) return known(found, true);
      if (scope === 'account' || asksNodes(content, engine)) return null;
      return adopt(found, content, engine, account);
    },
    elsewhere(content, engine, account) {
      return asksNodes(content, engine) ? askNodes(content, engine, account) : null;
    },
    keep(content, engine, account, found) {
      cache.set(content.sha256, engine.epoch, account, found);
      if (shared === null || !asksNodes(content, engine)) return;
      if (scope === 'shared') tell(content.sha256, engine, found);
      tell(ownDigest(account, content.sha256), engine, found);
    },
  };
}

function known({ verdict, durationMs, detectedType }: LookedAt, isOwn: boolean): Known {
  return { verdict, durationMs, detectedType, isOwn };
}

/** Of 64 hexadecimal characters, as that of a content. It shows nothing of the account or the content to a reader who doesn't know both. */
function ownDigest(account: string, sha256: string): string {
  return hash('sha256', `${account} ${sha256}`);
}
