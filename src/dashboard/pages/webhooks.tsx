// The account's webhooks: where they are, what they hear, how they are; and new ones.
import { Badge, Button } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { ask } from '../api/client.ts';
import { events, PATH, type Webhook, WebhookWithSecret, webhooksQuery } from '../api/webhooks.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { Columns } from '../parts/columns.tsx';
import { newDraft, useDraft } from '../parts/draft.ts';
import { AddIcon } from '../parts/icons.ts';
import { MakingDialog, Once } from '../parts/once.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { areComplete, WEBHOOK_FIELDS, type WebhookFields, WebhookInputs } from './webhook-fields.tsx';
import { texts as t } from './webhook-texts.ts';
import './webhooks.css';

const draft = newDraft<WebhookFields>();

export function Webhooks() {
  const [isMaking, setMaking] = useState(draft.kept !== null);
  const webhooks = useQuery(webhooksQuery);
  return (
    <>
      <PageTitle title={t.title} lead={t.lead}>
        <Button leftSection={<AddIcon />} onClick={() => setMaking(true)}>
          {t.create}
        </Button>
      </PageTitle>
      <section className="panel">
        <Awaited query={webhooks} skeleton={<LinesSkeleton lines={4} height={30} />} />
        {webhooks.data?.length === 0 && <Blank title={t.none} hint={t.noneHint} />}
        {webhooks.data !== undefined && webhooks.data.length > 0 && <Table webhooks={webhooks.data} />}
      </section>
      {isMaking && <NewWebhook close={() => setMaking(false)} />}
    </>
  );
}

function Table({ webhooks }: { readonly webhooks: readonly Webhook[] }) {
  return (
    <table className="table">
      <caption className="unseen">{t.title}</caption>
      <thead>
        <tr>
          <Columns names={t.columns} />
        </tr>
      </thead>
      <tbody>
        {webhooks.map((webhook) => (
          <tr key={webhook.id}>
            <td>
              <Link href={`/webhooks/${webhook.id}`} className="table-open name">
                {visibleName(webhook.url)}
              </Link>
            </td>
            <td data-label={t.columns.events}>{webhook.events.map((event) => t.eventNames[event]).join(', ')}</td>
            <td data-label={t.columns.state}>
              <State webhook={webhook} />
            </td>
            <td data-label={t.columns.created}>
              <Time at={webhook.creationDate} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const colours = { on: 'teal', off: 'gray', switchedOff: 'red', failing: 'yellow' } as const;

function stateOf({ enabled, notice, failingSince }: Webhook): keyof typeof colours {
  if (!enabled) return notice === null ? 'off' : 'switchedOff';
  return failingSince === null ? 'on' : 'failing';
}

export function State({ webhook }: { readonly webhook: Webhook }) {
  const state = stateOf(webhook);
  return <Badge color={colours[state]}>{t.states[state]}</Badge>;
}

function NewWebhook({ close }: { readonly close: () => void }) {
  const client = useQueryClient();
  const [fields, setFields] = useDraft(draft, { url: '', events });
  const create = useMutation({
    mutationFn: () => ask({ method: 'POST', path: PATH, body: fields, shape: WebhookWithSecret }),
    onSettled: () => client.invalidateQueries({ queryKey: webhooksQuery.queryKey }),
  });
  return (
    <MakingDialog
      title={t.create}
      madeTitle={t.made}
      make={create}
      isComplete={areComplete(fields)}
      fieldNames={WEBHOOK_FIELDS}
      fields={(state) => <WebhookInputs fields={fields} change={setFields} {...state} />}
      made={({ secret }) => <Once hint={t.once} label={t.secret} value={secret} close={close} />}
      close={close}
    />
  );
}
