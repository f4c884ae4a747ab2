// The guides of docs/ as modules: Markdown made into HTML at the build, with the tested examples put in where a page names them.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { marked } from 'marked';
import type { Plugin } from 'vite';

/** `- [Python](examples/scan.py)` alone on a line, a link where the guide is read as a file, is that file as a block of code. */
const EXAMPLE = /^- \[([A-Za-z]+)\]\(examples\/([a-z-]+\.[a-z]+)\)$/gm;

export function guides(): Plugin {
  return {
    name: 'guides',
    load(id) {
      if (!id.endsWith('.md')) return null;
      const withExamples = readFileSync(id, 'utf8').replaceAll(EXAMPLE, (_, language: string, name: string) => {
        const path = join(dirname(id), 'examples', name);
        this.addWatchFile(path);
        return `**${language}** (\`docs/examples/${name}\`)\n\n\`\`\`\n${readFileSync(path, 'utf8').trim()}\n\`\`\``;
      });
      const html = marked.parse(withExamples, { async: false });
      // Wide tables and code scroll by themselves, also by the keyboard.
      const scrolling = html
        .replaceAll('<table>', '<div class="guide-scroll" tabindex="0" role="region" aria-label="Table"><table>')
        .replaceAll('</table>', '</table></div>')
        // Guides link to each other by their files, as they lie in docs/.
        .replaceAll(/href="([a-z-]+)\.md"/g, 'href="/docs/$1"')
        .replaceAll('<pre>', '<pre tabindex="0" role="region" aria-label="Code">');
      return { code: `export const html = ${JSON.stringify(scrolling)};`, moduleType: 'js' };
    },
  };
}
