// A button that copies a text, and says whether it did.
import { Button } from '@mantine/core';
import { useState } from 'react';
import { texts } from '../texts.ts';

export function CopyButton({ text, label = texts.common.copy }: { readonly text: string; readonly label?: string }) {
  const [state, setState] = useState<'ready' | 'copied' | 'failed'>('ready');
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      setState('copied');
    } catch {
      // Browsers keep the clipboard to themselves without https, or when asked not to.
      setState('failed');
    }
  }
  return (
    <>
      <Button size="compact-sm" variant="default" onClick={copy}>
        {state === 'copied' ? texts.common.copied : label}
      </Button>
      <span role="status" className={state === 'failed' ? 'small' : 'unseen'}>
        {state === 'copied' ? texts.common.copied : state === 'failed' ? texts.common.copyFailed : ''}
      </span>
    </>
  );
}
