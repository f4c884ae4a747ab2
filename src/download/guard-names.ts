// Hostnames and ports that no URL scan may use, whatever they resolve to. Names come normalised by the URL parser.
import { domainToUnicode } from 'node:url';

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

export type HostName = 'malformed' | 'service' | 'private' | 'public';

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

export function isRefusedPort(port: number): boolean {
  return refusedPorts.has(port);
}
