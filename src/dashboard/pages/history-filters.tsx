// The filters of the history; what is typed is asked for when the typing pauses.
import { Button, Select, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { texts } from '../texts.ts';
import { type ChangeSearch, type HistorySearch, hasFilters, protocols, verdicts } from './history-search.ts';

const t = texts.history;
const PAUSE_MS = 300;

interface FiltersProps {
  readonly search: HistorySearch;
  readonly change: ChangeSearch;
}

export function HistoryFilters({ search, change }: FiltersProps) {
  return (
    <div className="history-filters">
      <Select
        label={t.verdict}
        allowDeselect={false}
        data={verdicts.map((value) => ({ value, label: t.verdicts[value] }))}
        value={search.verdict}
        onChange={(value) => change({ verdict: verdicts.find((one) => one === value) ?? 'all' })}
      />
      <Select
        label={t.protocol}
        allowDeselect={false}
        data={protocols.map((value) => ({ value, label: value === 'all' ? t.anyProtocol : texts.protocols[value] }))}
        value={search.protocol}
        onChange={(value) => change({ protocol: protocols.find((one) => one === value) ?? 'all' })}
      />
      <NameFilter value={search.q} change={change} />
      <TextInput
        type="date"
        label={t.from}
        value={search.from}
        error={search.from !== '' && search.to !== '' && search.from > search.to}
        onChange={({ currentTarget }) => change({ from: currentTarget.value })}
      />
      <TextInput
        type="date"
        label={t.to}
        value={search.to}
        onChange={({ currentTarget }) => change({ to: currentTarget.value })}
      />
      <Button
        variant="default"
        disabled={!hasFilters(search)}
        onClick={() => change({ verdict: 'all', protocol: 'all', q: '', from: '', to: '' })}
      >
        {t.reset}
      </Button>
    </div>
  );
}

function NameFilter({ value, change }: { readonly value: string; readonly change: ChangeSearch }) {
  const [text, setText] = useState(value);
  const [sent, setSent] = useState(value);
  // The address says another one than was typed here, as after "back".
  if (value !== sent) {
    setSent(value);
    setText(value);
  }
  useEffect(() => {
    if (text === sent) return;
    const timer = window.setTimeout(() => {
      setSent(text);
      change({ q: text }, { replace: true });
    }, PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, [text, sent, change]);
  return (
    <TextInput
      label={t.name}
      value={text}
      maxLength={255}
      onChange={({ currentTarget }) => setText(currentTarget.value)}
    />
  );
}
