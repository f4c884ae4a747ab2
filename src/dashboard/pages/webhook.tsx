// One webhook: how it is, its settings, what was sent by it, and what can be done with it.
import { Alert, Button, Switch } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation, useParams } from 'wouter';
import { ask, end } from '../api/client.ts';
import { PATH, TestResult, Webhook, WebhookWithSecret, webhookQuery, webhooksQuery } from '../api/webhooks.ts';
import { Dialog, Question } from '../parts/dialog.tsx';
import { newDrafts, useDraft } from '../parts/draft.ts';
import { Form } from '../parts/form.tsx';
import { number } from '../parts/format.ts';
import { BackIcon } from '../parts/icons.ts';
import { showDone, showProblem } from '../parts/notices.tsx';
import { Once } from '../parts/once.tsx';
import { One } from '../parts/one.tsx';
import { FormProblem } from '../parts/problem.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { Deliveries } from './webhook-deliveries.tsx';
import { areComplete, WEBHOOK_FIELDS, WebhookInputs } from './webhook-fields.tsx';
import { texts as t } from './webhook-texts.ts';
import { State } from './webhooks.tsx';

export function WebhookPage() {
  const { id = '' } = useParams<{ readonly id: string }>();
  const webhook = useQuery(webhookQuery(id));
  return (
    <>
      <Link href="/webhooks" className="back">
        <BackIcon />
        {t.title}
      </Link>
      <One query={webhook} texts={t}>
        {(found) => <Found webhook={found} />}
      </One>
    </>
  );
}

function Found({ webhook }: { readonly webhook: Webhook }) {
  return (
    <>
      <PageTitle title={visibleName(webhook.url)}>
        <State webhook={webhook} />
      </PageTitle>
      <div className="stack">
        <Warning webhook={webhook} />
        <div className="webhook">
          <section className="panel" aria-label={t.settings}>
            <h2 className="panel-title">{t.settings}</h2>
            <Settings key={webhook.id} webhook={webhook} />
            <Actions webhook={webhook} />
          </section>
          <Deliveries id={webhook.id} />
        </div>
      </div>
    </>
  );
}

function useChange(id: string, done: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Partial<Pick<Webhook, 'url' | 'events' | 'enabled'>>) =>
      ask({ method: 'PUT', path: `${PATH}/${id}`, body, shape: Webhook }),
    onSuccess: () => showDone(done),
    onSettled: () => client.invalidateQueries({ queryKey: webhooksQuery.queryKey }),
  });
}

function Warning({ webhook: { id, enabled, notice, failingSince } }: { readonly webhook: Webhook }) {
  const change = useChange(id, t.switchedOn);
  if (!enabled && notice !== null) {
    return (
      <Alert color="red" title={t.offTitle} role="status">
        <div className="stack">
          <span className="name">{notice}</span>
          <div>
            <Button
              size="compact-sm"
              variant="default"
              loading={change.isPending}
              onClick={() => change.mutate({ enabled: true }, { onError: showProblem })}
            >
              {t.switchOn}
            </Button>
          </div>
        </div>
      </Alert>
    );
  }
  if (!enabled || failingSince === null) return null;
  return (
    <Alert color="yellow" role="status">
      {t.failingSince} <Time at={failingSince} />. {t.failingHint}
    </Alert>
  );
}

/** What was changed here and is not saved, and no more: what changes elsewhere meanwhile is shown, and not undone by saving. */
type Changes = Partial<Pick<Webhook, 'url' | 'events' | 'enabled'>>;

const draftOf = newDrafts<Changes>();

function Settings({ webhook }: { readonly webhook: Webhook }) {
  const [changes, setChanges] = useDraft<Changes>(draftOf(webhook.id), {});
  const { url, events, enabled } = { ...webhook, ...changes };
  const fields = { url, events };
  const [isTried, setTried] = useState(false);
  const change = useChange(webhook.id, t.saved);
  function submit(): void {
    setTried(true);
    if (!areComplete(fields)) return;
    // An address that is named anew would begin anew.
    const { url, ...others } = changes;
    const body = url === undefined || url === webhook.url ? others : changes;
    if (Object.keys(body).length > 0) change.mutate(body, { onSuccess: () => setChanges({}) });
    else showDone(t.saved);
  }
  return (
    <Form onSubmit={submit} sends={change}>
      <FormProblem error={change.error} fields={WEBHOOK_FIELDS} />
      <WebhookInputs
        error={change.error}
        fields={fields}
        change={(next) =>
          setChanges({
            ...changes,
            ...(next.url === url ? {} : { url: next.url }),
            ...(next.events === events ? {} : { events: [...next.events] }),
          })
        }
        isTried={isTried}
      />
      <Switch
        label={t.enabled}
        description={t.enabledHint}
        checked={enabled}
        onChange={({ currentTarget: { checked } }) => setChanges({ ...changes, enabled: checked })}
      />
      <div>
        <Button type="submit" loading={change.isPending}>
          {t.save}
        </Button>
      </div>
    </Form>
  );
}

function Actions({ webhook }: { readonly webhook: Webhook }) {
  const [open, setOpen] = useState<'rotate' | 'delete' | null>(null);
  const test = useMutation({
    mutationFn: () => ask({ method: 'POST', path: `${PATH}/${webhook.id}/test`, shape: TestResult }),
    onError: showProblem,
  });
  return (
    <div className="webhook-actions">
      <div className="row">
        <Button variant="default" size="compact-sm" loading={test.isPending} onClick={() => test.mutate()}>
          {t.test}
        </Button>
        <Button variant="default" size="compact-sm" onClick={() => setOpen('rotate')}>
          {t.rotate}
        </Button>
        <Button variant="light" color="red" size="compact-sm" onClick={() => setOpen('delete')}>
          {t.delete}
        </Button>
      </div>
      <p className="name small webhook-test" role="status" data-delivered={test.data?.delivered}>
        {test.data === undefined ? '' : testText(test.data)}
      </p>
      {open === 'rotate' && <Rotate id={webhook.id} close={() => setOpen(null)} />}
      {open === 'delete' && <Delete webhook={webhook} close={() => setOpen(null)} />}
    </div>
  );
}

function testText({ delivered, status, error, durationMillis }: TestResult): string {
  if (delivered && status !== null) return t.testDone(status, number(durationMillis));
  return t.testFailed(visibleName(error ?? String(status)));
}

function Rotate({ id, close }: { readonly id: string; readonly close: () => void }) {
  const rotate = useMutation({
    mutationFn: () => ask({ method: 'POST', path: `${PATH}/${id}/rotate`, shape: WebhookWithSecret }),
    onError: showProblem,
  });
  if (rotate.data !== undefined) {
    return (
      <Dialog title={t.rotated} close={close} isKept>
        <Once hint={t.onceRotated} label={t.secret} value={rotate.data.secret} close={close} />
      </Dialog>
    );
  }
  return (
    <Question
      title={t.rotateTitle}
      text={t.rotateText}
      action={t.rotate}
      isPending={rotate.isPending}
      act={() => rotate.mutate()}
      close={close}
    />
  );
}

function Delete({ webhook: { id, url }, close }: { readonly webhook: Webhook; readonly close: () => void }) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const remove = useMutation({
    mutationFn: () => end(`${PATH}/${id}`),
    onSuccess() {
      showDone(t.deleted);
      navigate('/webhooks');
      client.removeQueries({ queryKey: webhookQuery(id).queryKey });
      return client.invalidateQueries({ queryKey: webhooksQuery.queryKey });
    },
    onError: showProblem,
  });
  return (
    <Question
      title={t.deleteTitle}
      text={t.deleteText(visibleName(url))}
      action={t.delete}
      isPending={remove.isPending}
      act={() => remove.mutate()}
      close={close}
    />
  );
}
