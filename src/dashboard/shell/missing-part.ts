// A page that was loaded before an upgrade asks for parts that are gone: the new page has others. What fails for another reason is not loaded again and again.
import { queue } from '../scan/queue.ts';

/** The script that this page is of, whose name has a hash of its content, for the tab. */
const RELOADED = 'sluice.reloadedFor';

/** Loads the page again, once in a tab for each version, and never while files are on their way. False: somebody has to decide. */
export function reloadForMissingPart(): boolean {
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
