// The focus goes back where it was when a dialog is gone.
import { useEffect, useState } from 'react';

/** For what is rendered only while the dialog is open. */
export function useFocusReturn(): void {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    },
    [before],
  );
}
