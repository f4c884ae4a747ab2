// What the browser keeps of this site for all of its tabs. Where it may keep nothing, as where cookies are blocked, the page does: what needs no sign-in is shown all the same.

export const localStorage = ofBrowser() ?? ofPage();

function ofBrowser(): Storage | null {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}

function ofPage(): Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> {
  const values = new Map<string, string>();
  return {
    getItem: (key) => values.get(key) ?? null,
    setItem: (key, value) => void values.set(key, value),
    removeItem: (key) => void values.delete(key),
  };
}
