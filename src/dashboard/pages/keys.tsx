// API keys: made, shown once with lines that use it, and revoked after a question.
import { Button, Modal } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ask } from '../api/client.ts';
import { Problem } from '../api/problem.ts';
import { keysQuery } from '../api/queries.ts';
import { type Key, Nothing } from '../api/shapes.ts';
import { Blank } from '../parts/blank.tsx';
import { useFocusReturn } from '../parts/focus-return.ts';
import { AddIcon } from '../parts/icons.ts';
import { ProblemBox, showDone, showProblem } from '../parts/problem.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import { NewKey } from './keys-new.tsx';
import './keys.css';

const t = texts.keys;

export function Keys() {
  const [isMaking, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Key | null>(null);
  const keys = useQuery(keysQuery);
  return (
    <>
      <PageTitle title={t.title} lead={t.lead}>
        <Button leftSection={<AddIcon size={16} aria-hidden="true" />} onClick={() => setMaking(true)}>
          {t.create}
        </Button>
      </PageTitle>
      <section className="panel keys-panel">
        {keys.isPending && <LinesSkeleton lines={4} height={30} />}
        {keys.isError && <ProblemBox error={keys.error} onRetry={() => void keys.refetch()} />}
        {keys.data?.length === 0 && <Blank title={t.none} hint={t.noneHint} />}
        {keys.data !== undefined && keys.data.length > 0 && <KeyTable keys={keys.data} revoke={setRevoking} />}
      </section>
      {isMaking && <NewKey close={() => setMaking(false)} />}
      {revoking !== null && <Revoke apiKey={revoking} close={() => setRevoking(null)} />}
    </>
  );
}

function KeyTable({ keys, revoke }: { readonly keys: readonly Key[]; readonly revoke: (key: Key) => void }) {
  return (
    <table className="keys-table">
      <caption className="unseen">{t.title}</caption>
      <thead>
        <tr>
          <th scope="col">{t.columns.name}</th>
          <th scope="col">{t.columns.value}</th>
          <th scope="col">{t.columns.created}</th>
          <th scope="col">{t.columns.used}</th>
          <th scope="col">
            <span className="unseen">{t.columns.actions}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {keys.map((key) => (
          <tr key={key.uuid}>
            <td className="name keys-name">{visibleName(key.name)}</td>
            <td className="code" data-label={t.columns.value}>
              {key.value.slice(0, 4)}…{key.value.slice(-4)}
            </td>
            <td className="small" data-label={t.columns.created}>
              <Time at={key.creationDate} />
            </td>
            <td className="small" data-label={t.columns.used}>
              {key.lastUse === null ? texts.common.never : <Time at={key.lastUse} />}
            </td>
            <td className="keys-action">
              <Button
                size="compact-sm"
                variant="light"
                color="red"
                aria-label={t.revokeOf(visibleName(key.name))}
                onClick={() => revoke(key)}
              >
                {t.revoke}
              </Button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const GONE = 404;

function Revoke({ apiKey, close }: { readonly apiKey: Key; readonly close: () => void }) {
  useFocusReturn();
  const client = useQueryClient();
  const revoke = useMutation({
    async mutationFn() {
      const path = `/web/keys/${encodeURIComponent(apiKey.uuid)}`;
      await ask({ method: 'DELETE', path, shape: Nothing }).catch((error: unknown) => {
        // Somebody was faster, or the answer of the first try was lost.
        if (!(error instanceof Problem && error.status === GONE)) throw error;
      });
    },
    onSuccess() {
      showDone(t.revoked);
      close();
    },
    onError: showProblem,
    onSettled: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
  return (
    <Modal opened onClose={close} title={t.revokeTitle} closeButtonProps={{ 'aria-label': texts.common.close }}>
      <p className="name keys-question">{t.revokeText(visibleName(apiKey.name))}</p>
      <div className="row keys-buttons">
        <Button variant="default" onClick={close} data-autofocus>
          {texts.common.cancel}
        </Button>
        <Button color="red" loading={revoke.isPending} onClick={() => revoke.mutate()}>
          {t.revoke}
        </Button>
      </div>
    </Modal>
  );
}
