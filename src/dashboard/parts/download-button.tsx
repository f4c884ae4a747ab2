// A file that the browser downloads as it is streamed.
import { Button } from '@mantine/core';
import { useState } from 'react';
import { ask } from '../api/client.ts';
import { User } from '../api/shapes.ts';
import { DownloadIcon } from './icons.ts';
import { showProblem } from './notices.tsx';

interface DownloadProps {
  readonly path: string;
  /** Of the file. */
  readonly name: string;
  readonly label: string;
  readonly disabled?: boolean;
}

export function DownloadButton({ path, name, label, disabled = false }: DownloadProps) {
  const [isBusy, setBusy] = useState(false);
  async function save(): Promise<void> {
    setBusy(true);
    try {
      await download(path, name);
    } catch (error) {
      showProblem(error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <Button variant="default" leftSection={<DownloadIcon />} onClick={save} loading={isBusy} disabled={disabled}>
      {label}
    </Button>
  );
}

/** The browser says nothing of an answer that is none, so the service is asked for something else first. */
async function download(path: string, name: string): Promise<void> {
  await ask({ path: '/web/users/me', shape: User });
  const link = document.createElement('a');
  link.href = path;
  link.download = name;
  link.click();
}
