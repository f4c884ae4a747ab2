// Who has asked for a scan without a key: somebody who was signed in, or what speaks another protocol.
import { texts } from '../texts.ts';

/** A protocol that this page doesn't know is shown as the service calls it. */
export function sourceText(protocol: string): string {
  if (protocol === 'http') return texts.dashboard;
  return new Map<string, string>(Object.entries(texts.protocols)).get(protocol) ?? protocol;
}
