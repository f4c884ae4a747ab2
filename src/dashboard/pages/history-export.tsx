// What is filtered as a file: the browser downloads it as it is streamed, after the cookie was renewed.
import { Button } from '@mantine/core';
import { useState } from 'react';
import { keepFresh } from '../api/session.ts';
import { DownloadIcon } from '../parts/icons.ts';
import { showProblem } from '../parts/problem.tsx';
import { texts } from '../texts.ts';
import { filtersOf, type HistorySearch, isImpossible } from './history-search.ts';

export function ExportButton({ search }: { readonly search: HistorySearch }) {
  const [isBusy, setBusy] = useState(false);
  async function download(): Promise<void> {
    setBusy(true);
    try {
      await keepFresh();
      const query = filtersOf(search).toString();
      const link = document.createElement('a');
      link.href = `/web/scans/stats/export${query === '' ? '' : `?${query}`}`;
      link.download = 'sluice-scans.csv';
      link.click();
    } catch (error) {
      showProblem(error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <Button
      variant="default"
      leftSection={<DownloadIcon />}
      onClick={download}
      loading={isBusy}
      disabled={isImpossible(search)}
    >
      {texts.history.export}
    </Button>
  );
}
