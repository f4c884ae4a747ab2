// The guides of docs/ as modules: Markdown made into HTML at the build, with the tested examples put in where a page names them, code in colours, and the sections that a search looks through.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import highlight from 'highlight.js';
import { Marked } from 'marked';
import type { Plugin } from 'vite';

/** Lines `- [Python](examples/scan.py)`, links where the guide is read as a file, are those files as tabs. */
const EXAMPLES = /(?:^- \[[A-Za-z]+\]\(examples\/[a-z-]+\.[a-z]+\)\n)+/gm;
const EXAMPLE = /^- \[([A-Za-z]+)\]\(examples\/([a-z-]+\.([a-z]+))\)$/gm;
const LANGUAGES: Readonly<Record<string, string>> = { sh: 'bash', py: 'python', ts: 'typescript' };

export function guides(): Plugin {
  return {
    name: 'guides',
    load(id) {
      if (!id.endsWith('.md')) return null;
      const withExamples = readFileSync(id, 'utf8').replaceAll(EXAMPLES, (block) => {
        const tabs = [...block.matchAll(EXAMPLE)].map(([, language = '', name = '', ending = '']) => {
          const path = join(dirname(id), 'examples', name);
          this.addWatchFile(path);
          return { language, html: codeOf(readFileSync(path, 'utf8').trim(), ending) };
        });
        return `${tabsOf(tabs)}\n\n`;
      });
      const { html, sections } = htmlOf(withExamples);
      return {
        code: `export const html = ${JSON.stringify(html)};\nexport const sections = ${JSON.stringify(sections)};`,
        moduleType: 'js',
      };
    },
  };
}

interface Section {
  /** Of the heading, for an address; empty: before the first one. */
  readonly anchor: string;
  readonly heading: string;
  text: string;
}

function htmlOf(markdown: string): { readonly html: string; readonly sections: readonly Section[] } {
  const sections: Section[] = [{ anchor: '', heading: '', text: '' }];
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const text = this.parser.parseInline(tokens);
        const anchor = anchorOf(text);
        if (depth === 2) sections.push({ anchor, heading: textOf(text), text: '' });
        return `<h${depth} id="${anchor}">${text} <a class="guide-anchor" href="#${anchor}" aria-label="Link to this section">#</a></h${depth}>`;
      },
      code({ text, lang }) {
        return codeOf(text, lang ?? '');
      },
    },
  });
  const parts = markdown.split(/^(?=## )/m);
  const rendered = parts.map((part) => marked.parse(part, { async: false }));
  for (const [index, part] of rendered.entries()) {
    const section = sections[index];
    if (section !== undefined) section.text = textOf(part);
  }
  // Wide tables scroll by themselves, also by the keyboard.
  const html = rendered
    .join('')
    .replaceAll('<table>', '<div class="guide-scroll" tabindex="0" role="region" aria-label="Table"><table>')
    .replaceAll('</table>', '</table></div>')
    // Guides link to each other by their files, as they lie in docs/.
    .replaceAll(/href="([a-z-]+)\.md(#[\w-]+)?"/g, 'href="/docs/$1$2"');
  return { html, sections };
}

/** As GitHub makes them, which links in the files are written for. */
function anchorOf(heading: string): string {
  return plain(heading)
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');
}

function plain(html: string): string {
  return html.replace(/<[^<>]*>/g, '');
}

const ENTITIES: Readonly<Record<string, string>> = {
  ...{ '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&#x27;': "'", '&#10;': ' ', '&amp;': '&' },
};

/** What is read, and searched: without marks, buttons and what only the eye needs. */
function textOf(html: string): string {
  return html
    .replace(/<(button|a class="guide-anchor")[^<>]*>[^<]*<\/\w+>/g, '')
    .replace(/<\/?(?!span|code|strong|em|a\b)[^<>]*>/g, ' ')
    .replace(/<[^<>]*>/g, '')
    .replace(/&#?\w+;/g, (entity) => ENTITIES[entity] ?? ' ')
    .split(/\s+/)
    .join(' ')
    .trim();
}

function codeOf(text: string, lang: string): string {
  const language = LANGUAGES[lang] ?? lang;
  const { value } =
    highlight.getLanguage(language) === undefined
      ? { value: escaped(text) }
      : highlight.highlight(text, { language, ignoreIllegals: true });
  return `<div class="guide-code"><button type="button" class="guide-copy">Copy</button><pre><code>${value}</code></pre></div>`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Radio buttons: they need no script, and the keyboard knows them. */
function tabsOf(tabs: readonly { readonly language: string; readonly html: string }[]): string {
  const parts = tabs.map(
    ({ language, html }, index) =>
      `<label class="guide-tab"><input type="radio" name="language"${index === 0 ? ' checked' : ''}>${language}</label><div class="guide-panel">${html}</div>`,
  );
  // One line: a blank one would end the HTML for Markdown.
  return `<fieldset class="guide-tabs"><legend class="unseen">Language</legend>${parts.join('').replaceAll('\n', '&#10;')}</fieldset>`;
}
