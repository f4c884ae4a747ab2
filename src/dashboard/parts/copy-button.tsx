// A button that copies a text, and says whether it did.
import { Button } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import { texts } from '../texts.ts';
import { CopyIcon } from './icons.ts';

/** How long it is said that it did. */
const COPIED_MS = 5_000;

export function CopyButton({ text, label = texts.common.copy }: { readonly text: string; readonly label?: string }) {
  const [state, setState] = useState<'ready' | 'copied' | 'failed'>('ready');
  const place = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (state !== 'copied') return;
    const timer = window.setTimeout(() => setState('ready'), COPIED_MS);
    return () => window.clearTimeout(timer);
  }, [state]);
  async function copy(): Promise<void> {
    setState((await copied(text, place.current)) ? 'copied' : 'failed');
  }
  return (
    <>
      <Button size="compact-sm" variant="default" leftSection={<CopyIcon size={14} />} onClick={copy}>
        {state === 'copied' ? texts.common.copied : label}
      </Button>
      <span ref={place} role="status" className={state === 'failed' ? 'small' : 'unseen'}>
        {state === 'copied' ? texts.common.copied : state === 'failed' ? texts.common.copyFailed : ''}
      </span>
    </>
  );
}

/** `place`: where the focus is. Browsers keep the clipboard to themselves without https: a selection can be copied all the same. */
export async function copied(text: string, place: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedAsSelection(text, place);
  }
}

function copiedAsSelection(text: string, place: HTMLElement | null): boolean {
  const before = document.activeElement;
  const field = document.createElement('textarea');
  field.className = 'unseen';
  field.readOnly = true;
  field.value = text;
  // Beside the button: a dialog lets the focus go nowhere else.
  place?.parentElement?.append(field);
  field.select();
  const isDone = document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return isDone;
}
