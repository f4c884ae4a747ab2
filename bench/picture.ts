// What all pictures of the bench have: SVG without a script that can be read alone, for a light and a dark page.
import type { Figures } from './figures.js';

export const WIDTH = 860;

/** On a background of their own: a page may be light in a browser that prefers dark ones. */
const CSS = `
  svg { background: #ffffff }
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 12px } .middle { text-anchor: middle } .end { text-anchor: end }
  .grid { stroke: #d1d9e0 } .full { stroke: #59636e; stroke-dasharray: 2 3 }
  .line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 6 4 }
  .sluice { stroke: #0969da } .clamd { stroke: #bc4c00 } .other { stroke: #59636e }
  .bar.sluice { fill: #0969da } .bar.clamd { fill: #bc4c00 } .bar.other { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117 }
    text { fill: #f0f6fc } .grid { stroke: #3d444d } .full { stroke: #9198a1 } .sluice { stroke: #58a6ff } .clamd { stroke: #f0883e }
    .bar.sluice { fill: #58a6ff } .bar.clamd { fill: #f0883e } .bar.other { fill: #9198a1 } .other { stroke: #9198a1 }
  }`;

/** Text of others, as content of an element or as the value of an attribute (XML 1.0, 2.2 and 2.4). */
export function escaped(text: string): string {
  const characters = [...text].map((one) => {
    const code = one.codePointAt(0) ?? 0;
    const isAllowed =
      code >= 0x20 ? code < 0xd800 || (code > 0xdfff && code !== 0xfffe && code !== 0xffff) : code === 9;
    if (!isAllowed) return '\u{fffd}';
    return '&<>"\''.includes(one) ? `&#${code};` : one;
  });
  return characters.join('');
}

/** Each by its colour and its dashes: nobody has to tell colours apart. */
export function legendOf(
  named: readonly { readonly name: string; readonly style: string }[],
  { left, height }: { readonly left: number; readonly height: number },
): string[] {
  return named.map(({ name, style }, at) => {
    const x = left + at * 190;
    const y = height - 34;
    return `<path class="line ${style}" d="M${x} ${y - 4}h34"/><text x="${x + 42}" y="${y}">${escaped(name)}</text>`;
  });
}

interface Frame extends Pick<Figures, 'machine' | 'date'> {
  readonly left: number;
  readonly height: number;
  /** For people who have pictures read to them. */
  readonly title: string;
  readonly heading: string;
}

export function picture({ left, height, title, heading, machine, date }: Frame, parts: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="title">
<title id="title">${escaped(title)}</title>
<style>${CSS}
</style>
<text x="${left}" y="20">${escaped(heading)}</text>
${parts.join('\n')}
<text class="small" x="${left}" y="${height - 10}">${escaped(`${machine}, ${date}`)}</text>
</svg>
`;
}
