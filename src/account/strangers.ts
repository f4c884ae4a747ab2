// People who are not signed in: whose address a request comes from, and what they may ask of the store and of the processor: little at one
// time, in turn by address and by the account that is named there. Who was refused a moment before is refused again from memory.
import { createHash } from 'node:crypto';
import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import ipaddr from 'ipaddr.js';
import { type Failure, Unavailable } from '../errors.js';
import type { Exchange } from '../http/exchange.js';
import { recentTable } from '../recent-table.js';
import { Turns, type Who } from '../waiting/turns.js';

/** The party of their questions, among the accounts that share the store's connections. */
export const STRANGERS = 'strangers';

/**
 * Of one process; a turn is some questions to the store. The rest of the store's connections is for accounts, and so is most of its time: one address has
 * 400 turns a second, all of them 800.
 */
const LIMITS = { running: 4, runningEach: 2, leastMs: 5, waiting: 2_000, waitingEach: 1_500, waitMs: 8_000 };

/** Refusals that need no store: who asks again as soon as it is refused would have the serving thread for itself. */
const REFUSALS = { running: 8, runningEach: 2, waiting: 10_000, waitingEach: 7_500, waitMs: 4_000 };
const REFUSAL_MS = 5;

export type Strangers = ReturnType<typeof createStrangers>;

export function createStrangers() {
  const busy = (): Error => new Unavailable('signInsBusy');
  const questions = new Turns({ ...LIMITS, full: busy, late: busy });
  const refusals = new Turns({ ...REFUSALS, full: busy, late: busy });
  return {
    /** Does what asks the store, when it is this one's turn. Throws Failure('unavailable') when there is none in time. */
    ask: <T>(who: Who, work: () => Promise<T>): Promise<T> => questions.run(who, work),
    /** Throws the failure, when it is the turn of that address to be refused. */
    async refuse(address: string, failure: Failure): Promise<never> {
      await refusals.run([address], () => delay(REFUSAL_MS));
      throw failure;
    },
  };
}

/** Secrets that are remembered, by their hash; some 150 bytes each. */
const REMEMBERED_MAX = 20_000;

/** Secrets with a value that is known for a while: those that nobody has, and tokens that were verified. */
export function createRemembered<Value extends object | number>(now: () => number) {
  const entries = recentTable<{ readonly value: Value; readonly untilMs: number }>(REMEMBERED_MAX);
  return {
    get(secret: string): Value | null {
      const entry = entries.get(digestOf(secret));
      return entry !== undefined && now() < entry.untilMs ? entry.value : null;
    },
    set(secret: string, value: Value, untilMs: number): void {
      entries.set(digestOf(secret), { value, untilMs });
    },
  };
}

/** No secret stays in memory, and how long a comparison takes says nothing of it. */
function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64');
}

type IpAddress = ipaddr.IPv4 | ipaddr.IPv6;

/** An entry as some proxies write it: `192.0.2.1:4711`, `[2001:db8::1]:4711`, `[2001:db8::1]`. */
const WITH_PORT = /^(?:(\d+\.\d+\.\d+\.\d+):\d+|\[([0-9a-f:.]+)\](?::\d+)?)$/i;
/** An IPv6 customer has a whole network of this size at least. */
const IPV6_CUSTOMER_BITS = 64;

/** Where a request comes from. */
export type AddressOf = (exchange: Pick<Exchange, 'remoteAddress' | 'headers'>) => string;

/**
 * The right-most address that isn't a trusted proxy's: each proxy adds the address of its client at the right, so everything further left
 * may be made up. Without trusted proxies it is the connection's. `trusted` are networks in CIDR notation.
 */
export function createAddressOf(trusted: readonly string[]): AddressOf {
  const networks = trusted.map((network) => ipaddr.parseCIDR(network));
  const isTrusted = (address: IpAddress): boolean => networks.some((network) => isIn(address, network));

  return (exchange) => {
    const remoteAddress = exchange.remoteAddress();
    const remote = read(remoteAddress);
    if (remote === null) return remoteAddress;
    let client = remote;
    const claims = (exchange.headers.get('x-forwarded-for') ?? '').split(',').reverse();
    for (const claim of claims) {
      if (!isTrusted(client)) break;
      const next = read(claim.trim());
      // `unknown`, a name, nonsense: the proxy that passed it on is the last one that we know of.
      if (next === null) break;
      client = next;
    }
    return client.toString();
  };
}

/** What is throttled as one: an IPv4 address, or the /64 of an IPv6 address. */
export function throttledAs(address: string): string {
  const parsed = read(address);
  if (parsed === null || parsed.kind() === 'ipv4') return address;
  const bytes = parsed.toByteArray();
  const network = bytes.map((byte, index) => (index < IPV6_CUSTOMER_BITS / 8 ? byte : 0));
  return `${ipaddr.fromByteArray(network).toString()}/${IPV6_CUSTOMER_BITS}`;
}

/** IPv4 addresses that IPv6 sockets see as `::ffff:192.0.2.1` become IPv4. The library alone would read `1` and `0x7f.1`, too. */
function read(text: string): IpAddress | null {
  const [, ipv4, ipv6] = WITH_PORT.exec(text) ?? [];
  const bare = ipv4 ?? ipv6 ?? text;
  return isIP(bare) === 0 || bare.includes('%') ? null : ipaddr.process(bare);
}

function isIn(address: IpAddress, [network, bits]: [IpAddress, number]): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}
