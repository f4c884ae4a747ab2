// The files of the font with the weights that pages use, and with what browsers ask each of them for: the one that the first page needs is a third smaller.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import subsetFont from 'subset-font';
import type { Plugin } from 'vite';

const FONT = '@fontsource-variable/inter';
const FILE = /^assets\/inter-([a-z]+(?:-ext)?)-wght-normal-[\w-]{8}\.woff2$/;
const WEIGHTS = { min: 400, max: 700 };
const HASH_CHARACTERS = 8;

export function fonts(): Plugin {
  return {
    name: 'fonts',
    async generateBundle(_options, bundle) {
      const ranges: unknown = JSON.parse(
        readFileSync(fileURLToPath(import.meta.resolve(`${FONT}/unicode.json`)), 'utf8'),
      );
      const styles = Object.values(bundle).flatMap((file) =>
        file.type === 'asset' && file.fileName.endsWith('.css') ? [file] : [],
      );
      for (const file of Object.values(bundle)) {
        const subset = FILE.exec(file.fileName)?.[1];
        if (subset === undefined || file.type !== 'asset' || typeof file.source === 'string') continue;
        const text = charactersOf(ranges, subset);
        const source = await subsetFont(file.source, text, { targetFormat: 'woff2', variationAxes: { wght: WEIGHTS } });
        // Kept for ever by its name: another content has another one.
        const hash = createHash('sha256').update(source).digest('base64url').slice(0, HASH_CHARACTERS);
        const fileName = `assets/inter-${subset}-${hash}.woff2`;
        for (const style of styles) style.source = String(style.source).replaceAll(file.fileName, fileName);
        delete bundle[file.fileName];
        this.emitFile({ type: 'asset', fileName, source });
      }
    },
  };
}

/** Of `U+0000-00FF,U+0131`. */
function charactersOf(ranges: unknown, subset: string): string {
  const entry = Object.entries(Object(ranges)).find(([name]) => name === subset);
  if (entry === undefined) throw new Error(`${FONT} doesn't say what its subset ${subset} has`);
  return String(entry[1])
    .split(',')
    .map((range) => {
      const [first = 0, last = first] = range
        .replace('U+', '')
        .split('-')
        .map((hex) => Number.parseInt(hex, 16));
      return String.fromCodePoint(...Array.from({ length: last - first + 1 }, (_, index) => first + index));
    })
    .join('');
}
