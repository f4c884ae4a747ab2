// Where the focus goes when what has it goes: a button whose row is removed, or that can't be pressed any more. Browsers give it to nobody then, and a screen reader begins again at the top of the page.

const DIALOG = '[role="dialog"]';
/** What can be said in place of what was in it. */
const PLACES = `${DIALOG}, section[aria-label], main`;

/** From now on, for as long as the page lives. */
export function keepFocus(): void {
  /** What had the focus last, and what that was in, from the inside out; empty: nothing, or somebody has left it. */
  let path: readonly Element[] = [];

  document.addEventListener('focusin', ({ target }) => {
    path = target instanceof Element ? pathOf(target) : [];
  });
  // A click beside everything: nobody is to have it. Of what is on its way out that is known when it has gone.
  document.addEventListener('focusout', ({ target, relatedTarget }) => {
    if (relatedTarget !== null) return;
    queueMicrotask(() => {
      const [last] = path;
      if (last === target && last instanceof Element && isAble(last) && hasNobody()) path = [];
    });
  });

  function mend(): void {
    const [last, ...around] = path;
    if (last === undefined || !(hasNobody() || document.activeElement === last)) return;
    // It may be there again, such as a button that was loading.
    if (isAble(last)) give(last);
    else if (!(last.isConnected && last.hasAttribute('data-loading'))) give(placeIn(around));
  }
  new MutationObserver(mend).observe(document.body, {
    childList: true,
    subtree: true,
    attributeFilter: ['disabled', 'data-loading'],
  });
}

function pathOf(element: Element): readonly Element[] {
  return element.parentElement === null ? [element] : [element, ...pathOf(element.parentElement)];
}

function isAble(element: Element): boolean {
  return element.isConnected && !element.matches(':disabled');
}

function hasNobody(): boolean {
  return document.activeElement === null || document.activeElement === document.body;
}

/** Null: there is none. A dialog that has closed gives the focus back itself. */
function placeIn(around: readonly Element[]): Element | null {
  const place = around.find((element) => element.matches(PLACES) && (element.isConnected || element.matches(DIALOG)));
  return place?.isConnected ? place : null;
}

function give(element: Element | null): void {
  if (!(element instanceof HTMLElement) || element === document.activeElement) return;
  if (element.matches('section:not([tabindex])')) element.tabIndex = -1;
  element.focus({ preventScroll: true });
}
