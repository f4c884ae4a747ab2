// Somebody who has only a keyboard: every control is reached by Tab, in a window of one size and in one scheme.
import type { Locator, Page } from 'playwright-core';
import type { Browser, Person } from './browser.js';

export interface Look {
  readonly width: number;
  readonly colorScheme: 'light' | 'dark';
}
const ALL_LOOKS: readonly Look[] = [
  { width: 390, colorScheme: 'dark' },
  { width: 1440, colorScheme: 'light' },
  { width: 390, colorScheme: 'light' },
  { width: 1440, colorScheme: 'dark' },
];
/** Both sizes and both schemes in two pairs; all four where `LOOKS=all` asks for it. Every page in all four is looked at in page-suite.ts. */
export const LOOKS = process.env['LOOKS'] === 'all' ? ALL_LOOKS : ALL_LOOKS.slice(0, 2);
/** Below this the navigation is behind a button. */
const WIDE = 800;
/** More controls than any page has. */
const TABS_MAX = 150;

interface Focusable {
  matches(selector: string): boolean;
}

export interface Hands {
  readonly person: Person;
  readonly page: Page;
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

export async function handsIn(browser: Browser, { width, colorScheme }: Look): Promise<Hands> {
  const person = await browser.person();
  const { page } = person;
  await page.setViewportSize({ width, height: 800 });
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });

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

  /** It is above the content: nearer backwards. On a phone a button opens it, and is before it. */
  async function pressInNavigation(target: Locator): Promise<void> {
    if (width < WIDE) {
      await reach(page.getByRole('button', { name: 'Open the menu' }), 'Shift+Tab');
      await page.keyboard.press('Enter');
    }
    await reach(target, width < WIDE ? 'Tab' : 'Shift+Tab');
    await page.keyboard.press('Enter');
  }

  return {
    ...{ person, page, press, type },
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
