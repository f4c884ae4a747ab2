// The names of /etc/hosts, which the DNS doesn't know: aliases that an operator gave to machines of the own network.
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';

const HOSTS_PATH = '/etc/hosts';

/** Lower-case names and their addresses. */
export type HostsFile = ReadonlyMap<string, readonly string[]>;

/** Read once, at the start; a machine without the file has no such names. */
export function readHostsFile(path = HOSTS_PATH): HostsFile {
  try {
    return parseHosts(readFileSync(path, 'utf8'));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return new Map();
    throw error;
  }
}

/** hosts(5): an address, then its names; what follows a `#` is a comment. */
function parseHosts(text: string): HostsFile {
  const hosts = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (isIP(address) === 0) continue;
    for (const name of names.map((each) => each.toLowerCase())) {
      hosts.set(name, [...(hosts.get(name) ?? []), address]);
    }
  }
  return hosts;
}
