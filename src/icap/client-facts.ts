// What an ICAP client says of the one whom it asks for: kept with the scan as its metadata, as JSON.
import { isIP } from 'node:net';

/** Characters of a name that anybody may have chosen. */
const USER_CHARACTERS = 200;
/** draft-stecher-icap-subid: a scheme and a path behind it, in Base64. */
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const NAMED = /^[A-Za-z][A-Za-z0-9+.-]*:\/\//;

/** `{"clientIp":"192.0.2.1","user":"Local://anna"}`; null: the client says neither. */
export function clientFacts(headers: ReadonlyMap<string, string>): string | null {
  const address = headers.get('x-client-ip') ?? '';
  const user = userOf(headers.get('x-authenticated-user') ?? '');
  const facts = { ...(isIP(address) === 0 ? {} : { clientIp: address }), ...(user === '' ? {} : { user }) };
  return Object.keys(facts).length === 0 ? null : JSON.stringify(facts);
}

/** Squid sends the bare name unless it is told to encode it, others send the draft's form. */
function userOf(sent: string): string {
  const decoded = BASE64.test(sent) ? Buffer.from(sent, 'base64').toString('utf8') : '';
  const name = NAMED.test(decoded) ? decoded : Buffer.from(sent, 'latin1').toString('utf8');
  return [...name.replace(/\p{Cc}/gu, '')].slice(0, USER_CHARACTERS).join('');
}
