// What is filtered as a file.
import { Button } from '@mantine/core';
import { useState } from 'react';
import { download } from '../api/download.ts';
import { DownloadIcon } from '../parts/icons.ts';
import { showProblem } from '../parts/problem.tsx';
import { texts } from '../texts.ts';
import { filtersOf, type HistorySearch, isImpossible } from './history-search.ts';

export function ExportButton({ search }: { readonly search: HistorySearch }) {
  const [isBusy, setBusy] = useState(false);
  async function save(): Promise<void> {
    setBusy(true);
    try {
      const query = filtersOf(search).toString();
      await download(`/web/scans/stats/export${query === '' ? '' : `?${query}`}`, 'sluice-scans.csv');
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
      onClick={save}
      loading={isBusy}
      disabled={isImpossible(search)}
    >
      {texts.history.export}
    </Button>
  );
}
