// A request of a scan route as the scan takes it: the form received, the URL held back until the request is admitted.
import { Failure } from '../../errors.js';
import type { Exchange } from '../../http/exchange.js';
import type { Sent, Submission, Unsent } from '../submission.js';
import { receiveUpload, type Sender, type UploadOptions } from './upload.js';

export interface FormOptions extends UploadOptions {
  /** Otherwise the form must hold a file. */
  readonly takesUrls: boolean;
}

/** `sender`: whom it is from; `options`: those of the route. */
export function submissionOf(exchange: Exchange, sender: Sender, options: FormOptions): Submission {
  const { requestId, signal, isGone } = exchange;
  return {
    account: sender.account,
    requestId,
    signal,
    isGone,
    onGone(listener) {
      exchange.onGone(listener);
      // A scan may wait for its thread for seconds: the time of a thread is for clients that are there.
      if (listener === null) exchange.unwatch();
      else exchange.watch();
    },
    receive(onReceived) {
      receiveUpload(exchange, sender, options, (sent) => {
        if (sent.kind === 'url') void checkUrl(exchange, sender, options, sent).then(onReceived);
        else onReceived(sent);
      });
    },
  };
}

/** Never rejects. */
async function checkUrl(
  exchange: Exchange,
  { cleared }: Sender,
  { takesUrls }: FormOptions,
  sent: Sent,
): Promise<Sent | Unsent> {
  try {
    // An upload may be scanned before the admission is there. An origin is asked only for those who are admitted.
    await cleared;
    if (!takesUrls) throw new Failure('urlRejected', 'this route scans uploads only');
  } catch (error) {
    return { kind: 'unsent', error, filename: '', isWhole: true };
  }
  // An origin may take seconds, which are wasted when the client has left.
  exchange.watch();
  return sent;
}
