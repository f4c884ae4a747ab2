// One key: what it was used for, and its name and limits, which can be changed.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ask } from '../api/client.ts';
import { keysQuery, keyUsageQuery } from '../api/queries.ts';
import { Key } from '../api/shapes.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Dialog, Step } from '../parts/dialog.tsx';
import { newDraft, useDraft } from '../parts/draft.ts';
import { showDone } from '../parts/notices.tsx';
import { OutcomeDays } from '../parts/outcomes.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import { texts as t } from './key-texts.ts';
import { areComplete, bodyOf, fieldsOf, KEY_FIELDS, type KeyFields, KeyInputs } from './keys-fields.tsx';

const SHOWN = ['clean', 'infected', 'failed'] as const;

/** Of the key as it was when it was opened. */
export const changeKeyDraft = newDraft<{ readonly key: Key; readonly fields: KeyFields }>();

export function ChangeKey({ apiKey, close }: { readonly apiKey: Key; readonly close: () => void }) {
  const client = useQueryClient();
  const [before] = useState(() => fieldsOf(apiKey));
  const [{ fields }, setDraft] = useDraft(changeKeyDraft, { key: apiKey, fields: before });
  const [isTried, setTried] = useState(false);
  const change = useMutation({
    mutationFn: () =>
      ask({ method: 'PUT', path: `/web/keys/${apiKey.uuid}`, body: bodyOf(fields, before), shape: Key }),
    onSuccess: end,
    onSettled: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
  function end(): void {
    showDone(t.saved);
    close();
  }
  return (
    <Dialog title={<span className="name">{visibleName(apiKey.name)}</span>} close={close} size="lg">
      <Step
        sends={change}
        action={t.save}
        cancel={close}
        fields={KEY_FIELDS}
        onSubmit={() => {
          setTried(true);
          if (!areComplete(fields)) return;
          if (Object.keys(bodyOf(fields, before)).length > 0) change.mutate();
          else end();
        }}
      >
        <dl className="facts">
          <dt>{t.value}</dt>
          <dd className="code">{shortValue(apiKey)}</dd>
          <dt>{t.created}</dt>
          <dd>
            <Time at={apiKey.creationDate} />
          </dd>
          <dt>{t.used}</dt>
          <dd>{apiKey.lastUse === null ? texts.common.never : <Time at={apiKey.lastUse} />}</dd>
        </dl>
        <KeyInputs
          fields={fields}
          change={(next) => setDraft({ key: apiKey, fields: next })}
          isTried={isTried}
          error={change.error}
        />
        <Use uuid={apiKey.uuid} />
      </Step>
    </Dialog>
  );
}

/** What is shown of the value, without all the stars. */
export function shortValue({ value }: Pick<Key, 'value'>): string {
  return `${value.slice(0, 4)}…${value.slice(-4)}`;
}

function Use({ uuid }: { readonly uuid: string }) {
  const usage = useQuery(keyUsageQuery(uuid));
  return (
    <section aria-label={t.use}>
      <h3 className="panel-title">{t.use}</h3>
      <Awaited query={usage} skeleton={<LinesSkeleton lines={5} height={28} />} />
      {usage.data !== undefined && (
        <>
          <OutcomeDays days={usage.data.days} shown={SHOWN} caption={t.use} />
          {usage.data.days.some(({ failed }) => failed > 0) && <p className="page-lead small">{t.useHint}</p>}
        </>
      )}
    </section>
  );
}
