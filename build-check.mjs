// Whether there is anything to build: the size and the times of every file that goes in or comes out, as the last build left them.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A file's time of change can't be set by hand. A folder's time says that an entry came or went. */
function markOf(path) {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return 'none';
  return stats.isDirectory() ? `${stats.mtimeMs}` : `${stats.size} ${stats.mtimeMs} ${stats.ctimeMs}`;
}

/** The marks of files, of folders, and of all that is in these, as lines. `isWatched` gets paths and leaves out what it says no to. */
export function marksOf(paths, isWatched = () => true) {
  const lines = [];
  const waiting = [...paths];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (!isWatched(path)) continue;
    lines.push(`${markOf(path)}\t${path}`);
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) continue;
    for (const name of readdirSync(path)) waiting.push(join(path, name));
  }
  return lines;
}

/** `about`: in one line, what else a build depends on. */
export function isUnchanged(stamp, about) {
  let lines;
  try {
    lines = readFileSync(stamp, 'utf8').split('\n');
  } catch (error) {
    if (error.code === 'ENOENT') return false;
    throw error;
  }
  if (lines.shift() !== about) return false;
  return lines.every((line) => {
    const [mark, path] = line.split('\t');
    return markOf(path) === mark;
  });
}

/** The inputs' marks are those of before the build: what changes while it runs is built by the next one. */
export function writeStamp(stamp, about, inputs, outputs) {
  writeFileSync(stamp, [about, ...inputs, ...outputs].join('\n'));
}

export function removeStamp(stamp) {
  rmSync(stamp, { force: true });
}
