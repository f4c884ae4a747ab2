// Where a URL scan may go: schemes, hostnames, ports and addresses. Pure: nothing is resolved or dialled here; the download asks for each URL and each address.
import { isIPv4 } from 'node:net';
import { domainToUnicode } from 'node:url';
import { parseUrl } from '../wire-text.js';
import { createAddressRules } from './guard-addresses.js';

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

  function checkAddress(address: string): GuardedAddress {
    return mayDial(address) ? { allowed: true } : refuse(NOT_PUBLIC);
  }

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

function refuse(reason: string): { readonly allowed: false; readonly reason: string } {
  return { allowed: false, reason };
}

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

function isBelow(name: string, parent: string): boolean {
  return name === parent || name.endsWith(`.${parent}`);
}

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
