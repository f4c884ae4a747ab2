// Somebody who has only a keyboard: every control is reached by Tab, in a window of some size and in some scheme.
import type { Locator, Page } from 'playwright-core';
import { type Browser, overflow, type Person } from './browser.js';

interface Look {
  readonly width: number;
  readonly colorScheme: 'light' | 'dark';
}
const NARROW = 390;
const WIDE = 1440;
const HEIGHT = 800;
const ALL_LOOKS: readonly Look[] = [
  { width: NARROW, colorScheme: 'dark' },
  { width: WIDE, colorScheme: 'light' },
  { width: NARROW, colorScheme: 'light' },
  { width: WIDE, colorScheme: 'dark' },
];
/**
 * What each walk looks like: one that changes between two pairs from step to step, or one for each of the four pairs where `LOOKS=all` asks for it. Every page in
 * all four is looked at in page-suite.ts.
 */
export const WALKS: readonly (readonly Look[])[] =
  process.env['LOOKS'] === 'all' ? ALL_LOOKS.map((look) => [look]) : [ALL_LOOKS.slice(0, 2)];
/** More controls than any page has. */
const TABS_MAX = 150;

interface Focusable {
  matches(selector: string): boolean;
}

export interface Hands {
  readonly person: Person;
  readonly page: Page;
  /** Goes on with the next of the looks. */
  turn(): Promise<void>;
  /** In both sizes the page is as wide as the window. */
  fits(): Promise<boolean>;
  press(target: Locator, key?: string): Promise<void>;
  /** In place of what the field has. */
  type(target: Locator, text: string): Promise<void>;
  /** Types it and ends with Enter, as forms are sent. */
  send(target: Locator, text: string): Promise<void>;
  /** By a link of the navigation. */
  go(name: string): Promise<void>;
  /** By an entry of the menu of the user. */
  choose(name: string): Promise<void>;
}

export async function handsIn(browser: Browser, looks: readonly Look[]): Promise<Hands> {
  const person = await browser.person();
  const { page } = person;
  let turns = 0;
  let width = 0;

  async function turn(): Promise<void> {
    const look = looks[turns % looks.length];
    if (look === undefined) throw new Error('A walk has looks');
    turns += 1;
    ({ width } = look);
    await page.setViewportSize({ width, height: HEIGHT });
    await page.emulateMedia({ colorScheme: look.colorScheme, reducedMotion: 'reduce' });
  }
  await turn();

  async function fits(): Promise<boolean> {
    const other = width === NARROW ? WIDE : NARROW;
    await page.setViewportSize({ width: other, height: HEIGHT });
    const most = await overflow(page);
    await page.setViewportSize({ width, height: HEIGHT });
    return Math.max(most, await overflow(page)) <= 0;
  }

  async function reach(target: Locator, key = 'Tab'): Promise<void> {
    await target.waitFor();
    // Looked for once: to find it by its role costs more than all Tabs.
    const element = await target.elementHandle();
    for (let count = 0; count < TABS_MAX; count += 1) {
      if (await element?.evaluate((found: Focusable) => found.matches(':focus'))) return;
      await page.keyboard.press(key);
    }
    throw new Error(`No ${key} leads to ${String(target)}`);
  }

  async function press(target: Locator, key = 'Enter'): Promise<void> {
    await reach(target);
    await page.keyboard.press(key);
  }

  async function type(target: Locator, text: string): Promise<void> {
    await press(target, 'Control+A');
    await page.keyboard.type(text);
  }

  /** It is above the content: nearer backwards. In the narrow window a button opens it, and is before it. */
  async function pressInNavigation(target: Locator): Promise<void> {
    if (width === NARROW) {
      await reach(page.getByRole('button', { name: 'Open the menu' }), 'Shift+Tab');
      await page.keyboard.press('Enter');
    }
    await reach(target, width === NARROW ? 'Tab' : 'Shift+Tab');
    await page.keyboard.press('Enter');
  }

  return {
    ...{ person, page, turn, fits, press, type },
    async send(target, text) {
      await type(target, text);
      await page.keyboard.press('Enter');
    },
    async go(name) {
      const navigation = page.getByRole('navigation', { name: 'Main' });
      await pressInNavigation(navigation.getByRole('link', { name, exact: true }));
    },
    async choose(name) {
      await pressInNavigation(page.getByRole('button', { name: 'Your account' }));
      await reach(page.getByRole('menuitem', { name }), 'ArrowDown');
      await page.keyboard.press('Enter');
    },
  };
}
