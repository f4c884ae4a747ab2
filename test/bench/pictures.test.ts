// The bench's pictures in a real browser: what is written and drawn stands out from what is behind it, whether the browser prefers light pages or dark ones.
import t from 'tap';
import { z } from 'zod';
import { barsOf } from '../../bench/bars.js';
import { curveOf, growthOf } from '../../bench/curve.js';
import { readFigures } from '../../bench/figures.js';
import { startBrowser } from '../dashboard/browser.js';

/** WCAG 2.2, 1.4.3 and 1.4.11. */
const TEXT_CONTRAST = 4.5;
const LINE_CONTRAST = 3;

/** Relative luminance (WCAG 2.2) of a colour as CSS computes it; null: one can see through it. */
function luminance(colour: string): number | null {
  const [red = 0, green = 0, blue = 0, alpha = 1] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  if (alpha < 1) return null;
  const [r = 0, g = 0, b = 0] = [red, green, blue].map((one) => {
    const share = one / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one: string, other: string): number {
  const [a, b] = [luminance(one), luminance(other)];
  if (a === null || b === null) return 0;
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** In the page. */
const LOOK = `(() => {
  const all = (selector, of) => [...new Set([...document.querySelectorAll(selector)].map((one) => getComputedStyle(one)[of]))];
  const background = getComputedStyle(document.documentElement).backgroundColor;
  return { background, texts: all('text', 'fill'), lines: [...all('.line', 'stroke'), ...all('.bar', 'fill')] };
})()`;
const colours = z.object({ background: z.string(), texts: z.array(z.string()), lines: z.array(z.string()) });

const bars = [{ name: 'a', bars: ['sluice', 'clamd', 'raw'].map((name) => ({ name, value: 1 })) }];
const pictures = {
  bars: barsOf({ heading: 'h', unit: 'u', reference: 1, groups: bars, machine: 'm', date: 'd' }),
  latency: curveOf(readFigures('overload')),
  growth: growthOf(readFigures('growth')),
};

t.test('pictures can be read in light and dark browsers', async (t) => {
  const browser = await startBrowser();
  t.teardown(() => browser.close());
  const { page } = await browser.person();
  for (const [name, svg] of Object.entries(pictures)) {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.goto(`data:image/svg+xml,${encodeURIComponent(svg)}`);
      const { background, texts, lines } = colours.parse(await page.evaluate(LOOK));
      t.ok(texts.length > 0 && lines.length > 1, `${name} has texts and lines`);
      for (const text of texts) t.ok(contrast(text, background) >= TEXT_CONTRAST, `${name}, ${colorScheme}: ${text}`);
      for (const line of lines) t.ok(contrast(line, background) >= LINE_CONTRAST, `${name}, ${colorScheme}: ${line}`);
    }
  }
});
