// The cores and the memory of a container: what its control groups allow of those of the machine.

import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import t from 'tap';
import { availableCores, coresWithin, processorQuota } from '../../src/config/config.js';

function reading(files: Readonly<Record<string, string>>): (path: string) => string | null {
  return (path) => files[path] ?? null;
}

const root = '/sys/fs/cgroup';

t.test('a container sees its own limit as the root of all control groups', async (t) => {
  const files = { '/proc/self/cgroup': '0::/\n', [`${root}/cpu.max`]: '200000 100000\n' };
  t.equal(processorQuota(reading(files)), 2);
});

t.test('of the groups above one another the least counts', async (t) => {
  const files = {
    '/proc/self/cgroup': '0::/system.slice/sluice.service\n',
    [`${root}/system.slice/sluice.service/cpu.max`]: 'max 100000\n',
    [`${root}/system.slice/cpu.max`]: '150000 100000\n',
    [`${root}/cpu.max`]: '400000 100000\n',
  };
  t.equal(processorQuota(reading(files)), 1.5);
});

t.test('without a limit there is none', async (t) => {
  t.equal(processorQuota(reading({})), null, 'no /proc');
  t.equal(processorQuota(reading({ '/proc/self/cgroup': '0::/a\n' })), null, 'the controller is off');
  t.equal(processorQuota(reading({ '/proc/self/cgroup': '0::/\n', [`${root}/cpu.max`]: 'max 100000\n' })), null);
  t.equal(processorQuota(reading({ '/proc/self/cgroup': '4:cpu,cpuacct:/a\n1:name=systemd:/a\n' })), null, 'version 1');
});

t.test('cores are whole, and at least one', async (t) => {
  t.equal(coresWithin(16, null), 16);
  t.equal(coresWithin(16, 2), 2);
  t.equal(coresWithin(16, 1.9), 1);
  t.equal(coresWithin(16, 0.25), 1);
  t.equal(coresWithin(2, 8), 2);
});

t.test('of this machine', async (t) => {
  const cores = availableCores();
  t.ok(Number.isInteger(cores) && cores >= 1 && cores <= availableParallelism(), String(cores));
});

t.test('memory for uploads and downloads is a part of what the control group allows', async (t) => {
  const module = new URL('../../src/config/config.js', import.meta.url).href;
  const program = `process.constrainedMemory = () => 3 * 2 ** 30;
    const { uploadMemoryBytes, downloadMemoryBytes } = (await import('${module}')).readConfig({});
    console.log(JSON.stringify([uploadMemoryBytes, downloadMemoryBytes]));`;
  const bytes = execFileSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8' });
  t.same(JSON.parse(bytes), [384 * 2 ** 20, 192 * 2 ** 20]);
});
