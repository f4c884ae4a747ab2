// API keys: made, shown once with lines that use it, changed, and revoked after a question.
import { Badge, Button } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { end } from '../api/client.ts';
import { keysQuery } from '../api/queries.ts';
import type { Key } from '../api/shapes.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { Question } from '../parts/dialog.tsx';
import { instantOf, number } from '../parts/format.ts';
import { AddIcon } from '../parts/icons.ts';
import { showDone, showProblem } from '../parts/notices.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import { texts as t } from './key-texts.ts';
import { ChangeKey, changeKeyDraft, shortValue } from './keys-change.tsx';
import { NewKey, newKeyDraft } from './keys-new.tsx';
import './keys.css';

type Open = { readonly is: 'new' } | { readonly is: 'change' | 'revoke'; readonly key: Key };

/** What was open when the session ended. */
function cutOff(): Open | null {
  if (newKeyDraft.kept !== null) return { is: 'new' };
  const { kept } = changeKeyDraft;
  return kept === null ? null : { is: 'change', key: kept.key };
}

export function Keys() {
  const [open, setOpen] = useState(cutOff);
  const close = (): void => setOpen(null);
  const keys = useQuery(keysQuery);
  return (
    <>
      <PageTitle title={t.title} lead={t.lead}>
        <Button leftSection={<AddIcon />} onClick={() => setOpen({ is: 'new' })}>
          {t.create}
        </Button>
      </PageTitle>
      <section className="panel">
        <Awaited query={keys} skeleton={<LinesSkeleton lines={4} height={30} />} />
        {keys.data?.length === 0 && <Blank title={t.none} hint={t.noneHint} />}
        {keys.data !== undefined && keys.data.length > 0 && <KeyTable keys={keys.data} open={setOpen} />}
      </section>
      {open?.is === 'new' && <NewKey close={close} />}
      {open?.is === 'change' && <ChangeKey apiKey={open.key} close={close} />}
      {open?.is === 'revoke' && <Revoke apiKey={open.key} close={close} />}
    </>
  );
}

function KeyTable({ keys, open }: { readonly keys: readonly Key[]; readonly open: (open: Open) => void }) {
  return (
    <table className="table">
      <caption className="unseen">{t.title}</caption>
      <thead>
        <tr>
          <th scope="col">{t.columns.name}</th>
          <th scope="col">{t.columns.value}</th>
          <th scope="col">{t.columns.may}</th>
          <th scope="col" className="table-number">
            {t.columns.limit}
          </th>
          <th scope="col">{t.columns.expires}</th>
          <th scope="col">{t.columns.used}</th>
          <th scope="col">
            <span className="unseen">{t.columns.actions}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {keys.map((key) => (
          <Row key={key.uuid} apiKey={key} open={open} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ apiKey, open }: { readonly apiKey: Key; readonly open: (open: Open) => void }) {
  const name = visibleName(apiKey.name);
  return (
    <tr>
      <td>
        <button
          type="button"
          className="table-open name"
          aria-label={t.open(name)}
          onClick={() => open({ is: 'change', key: apiKey })}
        >
          {name}
        </button>
      </td>
      <td className="code" data-label={t.columns.value}>
        {shortValue(apiKey)}
      </td>
      <td data-label={t.columns.may}>{apiKey.scopes.map((scope) => t.scopes[scope]).join(', ')}</td>
      <td className="table-number" data-label={t.columns.limit}>
        {apiKey.hourlyLimit === null ? <span className="dimmed">{t.asAccount}</span> : number(apiKey.hourlyLimit)}
      </td>
      <td data-label={t.columns.expires}>
        <Expiry at={apiKey.expires} />
      </td>
      <td data-label={t.columns.used}>{apiKey.lastUse === null ? texts.common.never : <Time at={apiKey.lastUse} />}</td>
      <td className="table-action">
        <Button
          size="compact-sm"
          variant="subtle"
          color="red"
          aria-label={t.revokeOf(name)}
          onClick={() => open({ is: 'revoke', key: apiKey })}
        >
          {t.revoke}
        </Button>
      </td>
    </tr>
  );
}

function Expiry({ at }: { readonly at: string | null }) {
  if (at === null) return texts.common.never;
  if (instantOf(at).getTime() > Date.now()) return <Time at={at} />;
  return <Badge color="red">{t.expired}</Badge>;
}

function Revoke({ apiKey, close }: { readonly apiKey: Key; readonly close: () => void }) {
  const client = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => end(`/web/keys/${apiKey.uuid}`),
    onSuccess() {
      showDone(t.revoked);
      close();
    },
    onError: showProblem,
    onSettled: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
  return (
    <Question
      title={t.revokeTitle}
      text={t.revokeText(visibleName(apiKey.name))}
      action={t.revoke}
      isPending={revoke.isPending}
      act={() => revoke.mutate()}
      close={close}
    />
  );
}
