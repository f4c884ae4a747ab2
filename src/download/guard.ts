// Where a URL scan may go: schemes, hostnames, ports and addresses, among them metadata services and the IPv4 addresses that IPv6 carries. Pure: nothing is resolved or
// dialled here; the download asks for each URL and each address.
import { isIPv4 } from 'node:net';
import { domainToUnicode } from 'node:url';
import ipaddr from 'ipaddr.js';
import { type IpAddress, isIn, type Network, networkOf, readAddress } from '../config/networks.js';
import { parseUrl } from '../wire-text.js';

interface GuardPolicy {
  /** Networks reachable in spite of the guard (URL_ALLOW_NETWORKS), CIDR notation. */
  readonly allowNetworks: readonly string[];
  /** Exactly these (URL_PORTS). Default: all but those below. */
  readonly ports?: readonly PortRange[] | null;
}

/** First and last. */
type PortRange = readonly [number, number];

export type GuardedUrl =
  | { readonly allowed: true; readonly url: URL }
  | { readonly allowed: false; readonly reason: string };
type GuardedAddress = { readonly allowed: true } | { readonly allowed: false; readonly reason: string };

export type Guard = ReturnType<typeof createGuard>;

/** The same word for every address: the name of its range would show a client what a name resolves to in this network. */
const NOT_PUBLIC = 'address is not public';

/** Throws on a malformed network. */
export function createGuard(policy: GuardPolicy) {
  const mayDial = createAddressRules(policy.allowNetworks);
  // Names of an intranet mean something where one has been opened; their addresses then decide.
  const privateNames = policy.allowNetworks.length > 0;

  const checkAddress = (address: string): GuardedAddress => (mayDial(address) ? { allowed: true } : refuse(NOT_PUBLIC));

  function checkHost(hostname: string): GuardedAddress {
    const literal = addressLiteral(hostname);
    if (literal !== null) return checkAddress(literal);
    switch (classifyHostName(hostname)) {
      case 'malformed':
        return refuse('malformed host name');
      case 'service':
        return refuse('host is not allowed');
      case 'private':
        return privateNames ? { allowed: true } : refuse('host is not allowed');
      case 'public':
        return { allowed: true };
    }
  }

  function isAllowedPort(port: number): boolean {
    const { ports = null } = policy;
    return ports === null ? !refusedPorts.has(port) : ports.some(([first, last]) => port >= first && port <= last);
  }

  function checkUrl(text: string): GuardedUrl {
    const reason = whyUnreadable(text);
    if (reason !== null) return refuse(reason);
    const url = parseUrl(text);
    if (url === null) return refuse('malformed URL');
    if (!isAllowedPort(portOf(url))) return refuse('port is not allowed');
    const host = checkHost(url.hostname);
    return host.allowed ? { allowed: true, url } : host;
  }

  return {
    /**
     * Scheme, credentials, port, hostname; an address literal is checked as an address too. Everything that can be judged
     * without DNS.
     */
    checkUrl,
    /** Where a redirect leads: the `Location` as it was sent by `base`, held to the same rules before it is resolved and after. */
    checkRedirect(location: string, base: URL): GuardedUrl {
      // Before it is resolved: that repairs text as the parser does.
      if (REPAIRED.test(location)) return refuse(REPAIRED_REASON);
      if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return checkUrl(location);
      if (location.startsWith('//')) return checkUrl(base.protocol + location);
      const target = parseUrl(location, base);
      return target === null ? refuse('malformed URL') : checkUrl(target.href);
    },
    /** One answer of the resolver (IPv4 or IPv6 text). Every answer must be allowed: one that isn't spoils the host. */
    checkAddress,
  };
}

const refuse = (reason: string): { readonly allowed: false; readonly reason: string } => ({ allowed: false, reason });

const REPAIRED = /[\p{Cc}\p{White_Space}\\]/u;
const REPAIRED_REASON = 'control character, white space or backslash in the URL';

/**
 * What can be said before the host matters. The URL parser repairs what people type (https://url.spec.whatwg.org/#url-parsing:
 * it drops tabs and newlines, turns backslashes, adds slashes); other readers of the same text see another host. So such text
 * is refused and never repaired.
 */
function whyUnreadable(text: string): string | null {
  if (text.trim() === '') return 'blank URL';
  if (REPAIRED.test(text)) return REPAIRED_REASON;
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1]?.toLowerCase();
  if (scheme !== 'http' && scheme !== 'https') return 'scheme is not http or https';
  // RFC 9110 section 4.2: a host is required, after exactly two slashes.
  const authority = /^[a-z]+:\/\/([^/?#]+)/i.exec(text)?.[1];
  if (authority === undefined) return 'malformed URL';
  // In the text rather than in the parsed URL, which forgets empty credentials (RFC 9110 section 4.2.4).
  return authority.includes('@') ? 'credentials in the URL' : null;
}

function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'https:' ? 443 : 80;
}

/** The parser has turned every spelling of an IPv4 address (octal, hex, short, dword) into the usual one. */
function addressLiteral(hostname: string): string | null {
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  return isIPv4(hostname) ? hostname : null;
}

/**
 * What answers with credentials, and the API of the cluster: the name itself and everything below it. Their addresses are
 * refused as well; a metadata service that moves to an address nobody has listed yet is stopped here.
 */
const serviceNames: readonly string[] = [
  // Google; the first by the search domain of its machines.
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  // AWS.
  'instance-data',
  'instance-data.ec2.internal',
  'metadata.azure.internal',
  'metadata.azure.com',
  'metadata.cloud.ibm.com',
  'metadata.tencentyun.com',
  'metadata.packet.net',
  'metadata.platformequinix.com',
  'metadata.exoscale.com',
  // CloudStack.
  'data-server',
  'rancher-metadata',
  'rancher-metadata.rancher.internal',
  // The Kubernetes API, in the lengths that the search domains of a pod complete.
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
  'kubernetes.default.svc.cluster.local',
];

/** Names that mean something only inside a network: RFC 6761, 6762, 8375, 9476, ICANN's .internal, and customary ones. */
const privateSuffixes: readonly string[] = [
  'localhost',
  'localdomain',
  'localdomain4',
  'localdomain6',
  'local',
  'internal',
  'intranet',
  'intra',
  'private',
  'corp',
  'home',
  'lan',
  'mail',
  'home.arpa',
  'consul',
  'docker',
  // Services of a Kubernetes cluster; cluster.local is below .local.
  'svc',
  // Not in the DNS at all (RFC 7686, RFC 9476): a query for them only leaks, and an answer is a lie.
  'onion',
  'alt',
];

type HostName = 'malformed' | 'service' | 'private' | 'public';

/** `hostname` as the URL parser gives it: lower case, ASCII. One root dot at the end changes nothing. */
export function classifyHostName(hostname: string): HostName {
  const name = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
  const labels = name.split('.');
  // RFC 1035 section 2.3.4. The underscore is in no host's RFC and in many hosts' names.
  if (name.length > 253 || labels.some((label) => !/^[a-z0-9_-]{1,63}$/.test(label))) return 'malformed';
  if (labels.some(isBrokenPunycode)) return 'malformed';
  if (serviceNames.some((service) => isBelow(name, service))) return 'service';
  // A single label is completed by the search domains of this machine, and so is a name of our own network.
  return labels.length === 1 || privateSuffixes.some((suffix) => isBelow(name, suffix)) ? 'private' : 'public';
}

/** RFC 3492. The URL parser of Node 20 and 22 refuses such a label, that of Node 24 takes it as it is. */
function isBrokenPunycode(label: string): boolean {
  if (!label.startsWith('xn--')) return false;
  const decoded = domainToUnicode(label);
  return decoded === '' || decoded.startsWith('xn--');
}

const isBelow = (name: string, parent: string): boolean => name === parent || name.endsWith(`.${parent}`);

/** Ports that browsers refuse to send HTTP to: https://fetch.spec.whatwg.org/#port-blocking */
const browserBlockedPorts: readonly number[] = [
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

/**
 * Databases, brokers and administration, which a browser may reach and a scanner has no business with: a request there can do
 * harm in our name, to strangers as well. None is a port that files are served from; none is in the range that Linux and the
 * IANA use for ephemeral ports.
 */
const servicePorts: readonly number[] = [
  445, // SMB
  873, // rsync
  1433, // SQL Server
  1521, // Oracle
  1883, // MQTT
  2181, // ZooKeeper
  2375, // Docker
  2376, // Docker over TLS
  2377, // Docker swarm
  2379, // etcd
  2380, // etcd peers
  3306, // MySQL
  3389, // RDP
  5432, // PostgreSQL
  5672, // AMQP
  5900, // VNC
  5984, // CouchDB
  5985, // WinRM
  5986, // WinRM over TLS
  6379, // Redis
  6443, // Kubernetes API
  8500, // Consul
  9042, // Cassandra
  9092, // Kafka
  9200, // Elasticsearch
  9300, // Elasticsearch peers
  10250, // kubelet
  10255, // kubelet, read only
  11211, // memcached: takes HTTP header lines for commands
  27017, // MongoDB
  27018, // MongoDB shards
  27019, // MongoDB configuration servers
];

const refusedPorts: ReadonlySet<number> = new Set([...browserBlockedPorts, ...servicePorts]);

/**
 * Also the few that the registries call globally reachable: an anycast address is answered by whatever is nearest, so from
 * inside a network that is a part of this network; and none of them holds files.
 */
const special = [
  '0.0.0.0/8', // this network (RFC 791); 0.0.0.0 is the machine itself on Linux
  '10.0.0.0/8', // private use (RFC 1918)
  '100.64.0.0/10', // shared address space of carrier-grade NAT (RFC 6598)
  '127.0.0.0/8', // loopback (RFC 1122)
  '169.254.0.0/16', // link-local (RFC 3927)
  '172.16.0.0/12', // private use (RFC 1918)
  '192.0.0.0/24', // IETF protocol assignments (RFC 6890): DS-Lite, PCP and TURN anycast, NAT64 discovery
  '192.0.2.0/24', // documentation, TEST-NET-1 (RFC 5737)
  '192.31.196.0/24', // AS112 anycast (RFC 7535)
  '192.52.193.0/24', // AMT anycast (RFC 7450)
  '192.88.99.0/24', // 6to4 relay anycast, deprecated (RFC 7526)
  '192.168.0.0/16', // private use (RFC 1918)
  '192.175.48.0/24', // direct delegation AS112 anycast (RFC 7534)
  '198.18.0.0/15', // benchmarking (RFC 2544)
  '198.51.100.0/24', // documentation, TEST-NET-2 (RFC 5737)
  '203.0.113.0/24', // documentation, TEST-NET-3 (RFC 5737)
  // Not in the registry: it has a registry of its own.
  '224.0.0.0/4', // multicast (RFC 5771)
  '240.0.0.0/4', // reserved, with the limited broadcast (RFC 1112, RFC 8190)

  '2001::/23', // IETF protocol assignments (RFC 2928): Teredo, anycast, benchmarking, ORCHID, drones, and more to come
  '2001:db8::/32', // documentation (RFC 3849)
  '2002::/16', // 6to4 (RFC 3056)
  '2620:4f:8000::/48', // direct delegation AS112 anycast (RFC 7534)
  '3fff::/20', // documentation (RFC 9637)
].map(networkOf);

/**
 * Default deny: IANA has handed out nothing for the public outside of it (RFC 4291 section 2.4, RFC 3587). Loopback, link-local, unique local, multicast
 * and all forms of IPv4 lie there.
 */
const globalUnicastIpv6 = networkOf('2000::/3');

/**
 * Where clouds answer with credentials. Refused even inside a network the operator has opened: a tailnet (100.64.0.0/10) or
 * fd00::/8 is opened for its file servers, never for these.
 */
const metadata = [
  '169.254.169.254/32', // AWS, Azure, Google, DigitalOcean, Hetzner, IBM, OpenStack, Oracle, Vultr
  '169.254.169.250/32', // Rancher
  '169.254.169.253/32', // AWS resolver
  '169.254.170.2/32', // AWS ECS task credentials
  '169.254.170.23/32', // AWS EKS pod identity
  '169.254.0.23/32', // Tencent Cloud
  '169.254.42.42/32', // Scaleway
  '100.100.100.200/32', // Alibaba Cloud
  '168.63.129.16/32', // Azure WireServer: looks public, and every Azure machine has it
  '192.0.0.192/32', // Oracle Cloud Classic
  'fd00:ec2::254/128', // AWS
  'fd00:ec2::253/128', // AWS resolver
  'fd00:ec2::23/128', // AWS EKS pod identity
  'fd20:ce::254/128', // Google
  'fd00:42::42/128', // Scaleway
  'fd00:a9fe:a9fe::1/128', // Akamai
  'fd00:c1::a9fe:a9fe/128', // Oracle Cloud
  'fe80::a9fe:a9fe/128', // OpenStack
].map(networkOf);

/** Returns what says whether an address may be dialled. Throws on a network that isn't CIDR notation, or that has bits beyond its prefix. */
function createAddressRules(allowNetworks: readonly string[]): (text: string) => boolean {
  const allowed = allowNetworks.map(networkOf);

  function isAllowed(address: IpAddress): boolean {
    if (metadata.some((network) => isIn(address, network))) return false;
    return allowed.some((network) => isIn(address, network)) || isPublic(address);
  }

  return (text) => {
    const address = readAddress(text);
    return address !== null && [address, ...carriedAddresses(address)].every(isAllowed);
  };
}

function isPublic(address: IpAddress): boolean {
  if (special.some((network) => isIn(address, network))) return false;
  return address.kind() === 'ipv4' || isIn(address, globalUnicastIpv6);
}

/** Where a prefix holds an IPv4 address: the places of its four bytes among the sixteen. */
interface Carrier {
  readonly network: Network;
  readonly places: readonly (readonly [number, number, number, number])[];
  /** Every byte is stored inverted (Teredo hides the client from NATs that rewrite addresses). */
  readonly inverted?: true;
}

const LAST = [12, 13, 14, 15] as const;

const carriers: readonly Carrier[] = [
  { network: networkOf('::/96'), places: [LAST] },
  { network: networkOf('::ffff:0:0/96'), places: [LAST] },
  { network: networkOf('::ffff:0:0:0/96'), places: [LAST] },
  { network: networkOf('64:ff9b::/96'), places: [LAST] },
  // RFC 6052 section 2.2. Only its operator knows the length of the prefix (/48, /56, /64, /96), so every place counts. The
  // zeros of the others count as 0.0.0.0, so that opening this range alone opens next to nothing: the safe side of unknown.
  { network: networkOf('64:ff9b:1::/48'), places: [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], LAST] },
  { network: networkOf('2002::/16'), places: [[2, 3, 4, 5]] },
  { network: networkOf('2001::/32'), places: [[4, 5, 6, 7]] },
  { network: networkOf('2001::/32'), places: [LAST], inverted: true },
];

/** :: and ::1 look IPv4-compatible and aren't (RFC 4291 section 2.5.5.1). */
const notCompatible = networkOf('::/127');

/** Every IPv4 address inside an IPv6 one. An operator who opens a carrier (NAT64, say) doesn't open what lies behind it. */
function carriedAddresses(address: IpAddress): ipaddr.IPv4[] {
  if (address.kind() === 'ipv4' || isIn(address, notCompatible)) return [];
  const bytes = address.toByteArray();
  const carried = carriers
    .filter(({ network }) => isIn(address, network))
    .flatMap(({ places, inverted }) => places.map((place) => pick(bytes, place, inverted === true ? 0xff : 0)));
  return isIsatap(bytes) ? [...carried, pick(bytes, LAST, 0)] : carried;
}

function pick(bytes: readonly number[], places: readonly number[], mask: number): ipaddr.IPv4 {
  return new ipaddr.IPv4(places.map((place) => (bytes[place] ?? 0) ^ mask));
}

/** RFC 5214 section 6.1: interface identifier 0000:5efe or 0200:5efe, under any prefix. */
function isIsatap(bytes: readonly number[]): boolean {
  const [high, low, oui, type] = bytes.slice(8, 12);
  return high !== undefined && (high & ~0x02) === 0 && low === 0 && oui === 0x5e && type === 0xfe;
}
