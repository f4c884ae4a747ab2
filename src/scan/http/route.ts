// POST /api/v1/scans and POST /web/scans: credentials in, a scan on its way out, which answers by itself.
import { type Access, type AccessControl, liveKey } from '../../admission/access.js';
import type { Lookups } from '../../admission/lookups.js';
import { Failure } from '../../errors.js';
import type { CallerRoute } from '../../http/caller.js';
import type { Exchange, Reply } from '../../http/exchange.js';
import type { Route } from '../../http/router.js';
import type { ScanParts } from '../scan.js';
import { exhaustedReply } from './answers.js';
import { type FormSettings, HttpScan } from './http-scan.js';
import type { KeptAnswers } from './kept-answers.js';
import { FirstScan, idempotencyKeyOf, RepeatedScan } from './once.js';
import { scanOperation, signedInOperation } from './operation.js';

export interface ScanRouteParts {
  readonly scans: ScanParts;
  readonly access: AccessControl;
  /** For requests with an Idempotency-Key; null: it isn't looked at. */
  readonly once: Once | null;
  readonly uploadTimeoutMs: number;
  readonly onSurprise: FormSettings['onSurprise'];
}

export interface Once {
  readonly kept: KeptAnswers;
  /** The live key of that hash, or null. */
  readonly findKey: Lookups['find'];
}

export interface ScanRoutes {
  /** The public route. */
  readonly withKey: Route;
  /** The dashboard's: uploads only, the same quota. */
  readonly signedIn: CallerRoute;
}

export function createScanRoutes({ scans, access, once, uploadTimeoutMs, onSurprise }: ScanRouteParts): ScanRoutes {
  const withUrls = { takesUrls: true, timeoutMs: uploadTimeoutMs, onSurprise };
  const uploadsOnly = { ...withUrls, takesUrls: false };

  /** The upload of a key whose user is known and likely to be admitted may be received and scanned already. */
  async function admitLater(exchange: Exchange, scan: HttpScan, asked: Promise<Access>): Promise<Reply | null> {
    try {
      return admit(exchange, scan, await asked);
    } catch (error) {
      scan.drop();
      throw error;
    }
  }

  async function scanOnce(exchange: Exchange, { kept, findKey }: Once): Promise<Reply | null> {
    const header = exchange.headers.get('x-api-key');
    const { userId } = await liveKey(header, findKey);
    const claimed = await kept.claim(userId, idempotencyKeyOf(exchange), () => exchange.isGone());
    exchange.vouch();
    if (claimed.kind === 'answered') {
      new RepeatedScan(scans, exchange, withUrls, claimed).begin(userId);
      return null;
    }
    const scan = new FirstScan(scans, exchange, withUrls, { kept, claim: claimed.claim });
    try {
      return admit(exchange, scan, await access.withApiKey(header));
    } catch (error) {
      scan.drop();
      throw error;
    }
  }

  return {
    withKey: {
      method: 'POST',
      path: '/api/v1/scans',
      operation: scanOperation,
      handle(exchange) {
        if (once !== null && exchange.headers.has('idempotency-key')) return scanOnce(exchange, once);
        const scan = new HttpScan(scans, exchange, withUrls);
        const asked = access.withApiKey(exchange.headers.get('x-api-key'), scan);
        return asked instanceof Promise ? admitLater(exchange, scan, asked) : admit(exchange, scan, asked);
      },
    },
    signedIn: {
      method: 'POST',
      path: '/web/scans',
      operation: signedInOperation,
      handle: async (caller, exchange) =>
        admit(exchange, new HttpScan(scans, exchange, uploadsOnly), await access.asUser(caller)),
    },
  };
}

/** Null: the scan answers. */
function admit(exchange: Exchange, scan: HttpScan, asked: Access): Reply | null {
  switch (asked.outcome) {
    case 'keyMissing':
    case 'keyInvalid':
    case 'accountSuspended':
      throw new Failure(asked.outcome);
    case 'exhausted':
      scan.drop();
      return exhaustedReply(asked);
    case 'admitted':
      // From here on it isn't a stranger's.
      exchange.vouch();
      scan.onAdmission(asked);
      return null;
  }
}
