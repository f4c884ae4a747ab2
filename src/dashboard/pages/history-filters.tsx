// The filters of the history; what is typed, days too, is asked for when the typing pauses.
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
  isImpossible,
  noFilters,
  protocols,
  SHA256,
  scanAddress,
  type TextFilter,
  textFilters,
  UUID,
  verdicts,
} from './history-search.ts';

const t = texts.history;
/** No scan is older. */
const FIRST_DAY = '1970-01-01';
/** No key has it for its uuid. */
const ANY = 'any';

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
      <DayFilter label={t.from} day={search.from} isWrong={isImpossible(search)} change={(from) => change({ from })} />
      <DayFilter label={t.to} day={search.to} isWrong={false} change={(to) => change({ to })} />
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
  const ended = isKnown ? [] : [{ value: search.key, label: t.endedKey }];
  return (
    <Select
      className="history-key"
      label={t.key}
      // Mantine's button that clears it is none for the keyboard, nor for screen readers.
      data={[{ value: ANY, label: t.anyKey }, ...known, ...ended]}
      value={search.key === '' ? ANY : search.key}
      onChange={(value) => change({ key: value === null || value === ANY ? '' : value })}
    />
  );
}

interface DayFilterProps {
  readonly label: string;
  /** `YYYY-MM-DD`, or empty. */
  readonly day: string;
  readonly isWrong: boolean;
  readonly change: (day: string) => void;
}

/** While a day is typed the field has others: those of the years 2, 20 and 202 before those of 2026. */
function DayFilter({ label, day, isWrong, change }: DayFilterProps) {
  const [text, setText] = useTyped(day, (typed) => {
    if (typed === '' || typed >= FIRST_DAY) change(typed);
  });
  return (
    <TextInput
      type="date"
      label={label}
      value={text}
      error={isWrong}
      onChange={({ currentTarget }) => setText(currentTarget.value)}
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
    if (UUID.test(trimmed)) navigate(scanAddress(trimmed, search));
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
