// A text that is looked for: sent when the typing pauses, and kept in the address, which "back" and shared links bring back.
import { useEffect, useState } from 'react';

const PAUSE_MS = 300;

/** `given`: what the address has. */
export function useTyped(given: string, send: (text: string) => void) {
  const [text, setText] = useState(given);
  const [known, setKnown] = useState(given);
  if (given !== known) {
    setKnown(given);
    setText(given);
  }
  useEffect(() => {
    if (text === given) return;
    const timer = window.setTimeout(send, PAUSE_MS, text);
    return () => window.clearTimeout(timer);
  }, [text, given, send]);
  return [text, setText] as const;
}
