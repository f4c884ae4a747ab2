// The filters of the history; what is typed is asked for when the typing pauses.
import { Button, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { keysQuery } from '../api/queries.ts';
import { SearchIcon } from '../parts/icons.ts';
import { useTyped } from '../parts/typed.ts';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import {
  type ChangeSearch,
  type HistorySearch,
  hasFilters,
  noFilters,
  protocols,
  SHA256,
  type TextFilter,
  textFilters,
  UUID,
  verdicts,
} from './history-search.ts';

const t = texts.history;

interface FiltersProps {
  readonly search: HistorySearch;
  readonly change: ChangeSearch;
}

export function HistoryFilters({ search, change }: FiltersProps) {
  return (
    <div className="history-filters">
      <TextFilters search={search} change={change} />
      <Select
        label={t.verdict}
        data={verdicts.map((value) => ({ value, label: value === 'all' ? t.all : texts.overview.outcomes[value] }))}
        value={search.verdict}
        onChange={(value) => change({ verdict: verdicts.find((one) => one === value) ?? 'all' })}
      />
      <Select
        label={t.protocol}
        data={protocols.map((value) => ({ value, label: value === 'all' ? t.all : texts.protocols[value] }))}
        value={search.protocol}
        onChange={(value) => change({ protocol: protocols.find((one) => one === value) ?? 'all' })}
      />
      <KeyFilter search={search} change={change} />
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
      {hasFilters(search) && (
        <Button className="history-reset" variant="default" size="compact-sm" onClick={() => change(noFilters)}>
          {t.reset}
        </Button>
      )}
    </div>
  );
}

function KeyFilter({ search, change }: FiltersProps) {
  const keys = useQuery(keysQuery);
  const known = (keys.data ?? []).map(({ uuid, name }) => ({ value: uuid, label: visibleName(name) }));
  const isKnown = search.key === '' || known.some(({ value }) => value === search.key);
  return (
    <Select
      className="history-key"
      label={t.key}
      placeholder={t.anyKey}
      clearable
      data={isKnown ? known : [...known, { value: search.key, label: t.endedKey }]}
      value={search.key === '' ? null : search.key}
      onChange={(value) => change({ key: value ?? '' })}
    />
  );
}

/** A name, a signature or a digest; the id of a scan leads to its page. */
function TextFilters({ search, change }: FiltersProps) {
  const [, navigate] = useLocation();
  const given = textFilters.find((name) => search[name] !== '') ?? null;
  const [chosen, setChosen] = useState<TextFilter>(given ?? 'q');
  const kind = given ?? chosen;
  const [text, setText] = useTyped(search[kind], (typed) => {
    const trimmed = typed.trim();
    if (UUID.test(trimmed)) navigate(`/scans/${trimmed}`);
    else if (SHA256.test(trimmed)) change({ ...noTexts, sha256: trimmed }, { replace: true });
    else if (kind !== 'sha256' || trimmed === '') change({ ...noTexts, [kind]: typed }, { replace: true });
  });
  const isPart = kind === 'sha256' && text.trim() !== '' && !SHA256.test(text.trim());
  return (
    <>
      <Select
        className="history-kind"
        label={t.searchBy}
        data={textFilters.map((name) => ({ value: name, label: t.kinds[name] }))}
        value={kind}
        onChange={(next) => {
          setChosen(textFilters.find((name) => name === next) ?? 'q');
          change(noTexts);
        }}
      />
      <TextInput
        className="history-text"
        label={t.search}
        placeholder={t.searchHint}
        leftSection={<SearchIcon />}
        value={text}
        maxLength={255}
        error={isPart && t.partOfDigest}
        onChange={({ currentTarget }) => setText(currentTarget.value)}
      />
    </>
  );
}

const noTexts = { q: '', virus: '', sha256: '' } as const;
