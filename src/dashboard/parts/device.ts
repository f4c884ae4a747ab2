// What a User-Agent header says of a device, in a few words: enough to know one's own again.
import { texts } from '../texts.ts';
import { visibleName } from './visible-name.ts';

/** In this order: what comes later is claimed by what comes earlier, too. */
const browsers: readonly (readonly [string, RegExp])[] = [
  ['Edge', /\bEdgA?\//],
  ['Opera', /\bOPR\//],
  ['Firefox', /\b(Firefox|FxiOS)\//],
  ['Chrome', /\b(Chrome|HeadlessChrome|CriOS)\//],
  ['Safari', /\bSafari\//],
  ['curl', /^curl\//],
  ['Python', /\bpython-requests\//],
];
const systems: readonly (readonly [string, RegExp])[] = [
  ['Android', /Android/],
  ['iPhone', /iPhone/],
  ['iPad', /iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['ChromeOS', /CrOS/],
  ['Linux', /Linux/],
];
const SHOWN_CHARACTERS = 60;

export function deviceOf(userAgent: string): string {
  const named = (table: typeof browsers): string | null => table.find(([, mark]) => mark.test(userAgent))?.[0] ?? null;
  const [browser, system] = [named(browsers), named(systems)];
  if (browser !== null && system !== null) return texts.account.device(browser, system);
  const shown = browser ?? visibleName([...userAgent].slice(0, SHOWN_CHARACTERS).join(''));
  return shown === '' ? texts.account.unknownDevice : shown;
}
