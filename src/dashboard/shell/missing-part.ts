// Parts of the page that are loaded when they are needed. While the server is away they wait for it. A page that was loaded before an upgrade asks for parts that are gone: the new page has others. What fails for another reason is not loaded again and again.
import { untilReachable } from '../api/reachability.ts';
import { queue } from '../scan/queue.ts';

/** The script that this page is of, whose name has a hash of its content, for the tab. */
const RELOADED = 'sluice.reloadedFor';

/** Rejects where the server answers and the part can't be had: somebody has to decide. */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch {
    // A reload while the server is away would leave the browser's own page, which doesn't come back.
    await untilReachable();
    return await loadAgain(load);
  }
}

/** Some browsers remember that a part could not be loaded, and don't ask for it again. */
async function loadAgain<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (!reloadOnce()) throw error;
    // The page goes.
    return await new Promise<never>(() => undefined);
  }
}

/** Loads the page again, once in a tab for each version, and never while files are on their way. False: it isn't done. */
function reloadOnce(): boolean {
  if (queue.isBusy() || !rememberReload(import.meta.url)) return false;
  window.location.reload();
  return true;
}

/** False: it was done before, or can't be remembered. */
function rememberReload(version: string): boolean {
  try {
    if (sessionStorage.getItem(RELOADED) === version) return false;
    sessionStorage.setItem(RELOADED, version);
    return true;
  } catch {
    return false;
  }
}
