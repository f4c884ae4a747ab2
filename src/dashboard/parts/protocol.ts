// By what a scan has come, in words; a protocol that this page doesn't know is shown as the service calls it.
import { texts } from '../texts.ts';

export function protocolText(protocol: string): string {
  return new Map<string, string>(Object.entries(texts.protocols)).get(protocol) ?? protocol;
}
