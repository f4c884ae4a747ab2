// POST /api/v1/scans and POST /web/scans: credentials in, the scan's answer with its headers out.
import type { Access, AccessControl } from '../../admission/access.js';
import { Failure } from '../../errors.js';
import type { CallerRoute } from '../../http/caller.js';
import type { Exchange, Reply } from '../../http/exchange.js';
import type { Route } from '../../http/router.js';
import type { UploadMemory } from '../memory/memory.js';
import type { Begun, ScanService, Served } from '../service.js';
import type { Submission } from '../submission.js';
import { exhaustedReply, servedReply } from './answers.js';
import { scanOperation, signedInOperation } from './operation.js';
import { submissionOf } from './submission.js';

export interface ScanRouteParts {
  readonly service: ScanService;
  readonly access: AccessControl;
  readonly uploadMemory: UploadMemory;
  readonly uploadTimeoutMs: number;
}

export interface ScanRoutes {
  /** The public route. */
  readonly withKey: Route;
  /** The dashboard's: uploads only, the same quota. */
  readonly signedIn: CallerRoute;
}

export function createScanRoutes({ service, access, uploadMemory, uploadTimeoutMs }: ScanRouteParts): ScanRoutes {
  const upload = { memory: uploadMemory, timeoutMs: uploadTimeoutMs };
  const withUrls = { ...upload, takesUrls: true };
  const uploadsOnly = { ...upload, takesUrls: false };

  /** Receives and scans the upload of a key whose user is known and likely to be admitted. */
  function beginEarly(exchange: Exchange, account: string, asked: Promise<Access>): Begun {
    const cleared = clearedBy(asked, account);
    // When the upload was wrong before that, the admission is not waited for.
    cleared.catch(() => undefined);
    return service.begin(submissionOf(exchange, { account, cleared }, withUrls));
  }

  async function clearedBy(asked: Promise<Access>, account: string): Promise<void> {
    const answer = await asked;
    if (answer.outcome !== 'admitted' || answer.userId !== account) throw new Error('The request is not admitted');
    service.assertOpen();
  }

  function answer(asked: Access, work: (account: string) => Submission | Begun): Reply | Promise<Reply> {
    switch (asked.outcome) {
      case 'keyMissing':
      case 'keyInvalid':
        throw new Failure(asked.outcome);
      case 'exhausted':
        return exhaustedReply(asked);
      case 'admitted':
        return new Promise<Served>((resolve) => service.serve(asked, work(asked.userId), resolve)).then(servedReply);
    }
  }

  function submitted(exchange: Exchange, form: typeof withUrls): (account: string) => Submission {
    return (account) => submissionOf(exchange, { account, cleared: null }, form);
  }

  return {
    withKey: {
      method: 'POST',
      path: '/api/v1/scans',
      operation: scanOperation,
      handle(exchange) {
        const header = exchange.headers.get('x-api-key');
        const asked = access.withApiKey(header);
        if (!(asked instanceof Promise)) return answer(asked, submitted(exchange, withUrls));
        // The answer is waited for: what nobody else sees may begin meanwhile.
        const account = access.expectedUser(header);
        const begun = account === null ? null : beginEarly(exchange, account, asked);
        return asked.then((admitted) => answer(admitted, begun === null ? submitted(exchange, withUrls) : () => begun));
      },
    },
    signedIn: {
      method: 'POST',
      path: '/web/scans',
      operation: signedInOperation,
      handle: async (caller, exchange) => answer(await access.asUser(caller), submitted(exchange, uploadsOnly)),
    },
  };
}
