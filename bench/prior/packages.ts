// Packages by name and version, from Debian's archive and from npm's registry, fetched by their own clients and unpacked; nothing of them is run.
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { sourcePath } from '../paths.js';

const run = promisify(execFile);

export interface Package {
  readonly registry: 'debian' | 'npm';
  readonly name: string;
  readonly version: string;
}

export type ListName = 'training' | 'held-out';

const TIMEOUT_MS = 5 * 60 * 1000;
const UNPACKED = '.unpacked';

/** A line each: the registry, the name, the version. */
export async function readPackages(list: ListName): Promise<readonly Package[]> {
  const text = await readFile(sourcePath(`prior/${list}.txt`), 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [registry, name, version] = line.split(' ');
      if ((registry !== 'debian' && registry !== 'npm') || name === undefined || version === undefined) {
        throw new Error(`not a package: ${line}`);
      }
      return { registry, name, version };
    });
}

function folderOf({ registry, name, version }: Package): string {
  return `${registry}-${name}-${version}`.replaceAll(/[^\w.+-]/g, '_');
}

/** Each into a folder of its own; those that are there already are left. Says which could not be had: registries drop old versions. */
export async function fetchPackages(
  packages: readonly Package[],
  folder: string,
  onProgress: (done: number) => void,
): Promise<readonly Package[]> {
  const missing: Package[] = [];
  for (const [index, one] of packages.entries()) {
    if (!(await fetchPackage(one, join(folder, folderOf(one))))) missing.push(one);
    onProgress(index + 1);
  }
  return missing;
}

async function fetchPackage({ registry, name, version }: Package, target: string): Promise<boolean> {
  const draft = `${target}.draft`;
  const unpacked = join(draft, UNPACKED);
  if ((await readdir(target).catch(() => [])).length > 0) return true;
  await mkdir(unpacked, { recursive: true });
  const options = { cwd: draft, timeout: TIMEOUT_MS };
  try {
    if (registry === 'debian') await run('apt-get', ['download', '-qq', `${name}=${version}`], options);
    else await run('npm', ['pack', '--silent', '--ignore-scripts', `${name}@${version}`], options);
    const archive = (await readdir(draft)).find((entry) => entry !== UNPACKED);
    if (archive === undefined) return false;
    const path = join(draft, archive);
    if (registry === 'debian') await run('dpkg-deb', ['-x', path, unpacked], options);
    else await run('tar', ['-xzf', path, '-C', unpacked, '--no-same-owner'], options);
    await run('chmod', ['-R', 'u+rwX', unpacked], options);
    await rename(draft, target);
    return true;
  } catch {
    return false;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}
