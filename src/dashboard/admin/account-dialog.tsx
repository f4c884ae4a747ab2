// One account: its use, what it may do, its keys and sessions, and what ends them.
import { Button, NumberInput, Select, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ask } from '../api/client.ts';
import { meQuery } from '../api/queries.ts';
import { Nothing } from '../api/shapes.ts';
import { texts as keyTexts } from '../pages/key-texts.ts';
import { Awaited } from '../parts/awaited.tsx';
import { deviceOf } from '../parts/device.ts';
import { Dialog, Question } from '../parts/dialog.tsx';
import { newDraft, useDraft } from '../parts/draft.ts';
import { limitError } from '../parts/field-rules.ts';
import { Form } from '../parts/form.tsx';
import { showDone, showProblem } from '../parts/notices.tsx';
import { OutcomeDays } from '../parts/outcomes.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts as common } from '../texts.ts';
import { type Account, AccountDetail, accountQuery } from './api.ts';
import { texts } from './texts.ts';

const t = texts.accounts;

/** What this operator has changed, and no more: what another one changes meanwhile is shown, and not undone by saving. */
interface Changes {
  readonly plan?: string;
  readonly limit?: number | string;
  readonly role?: string;
}

export const accountDraft = newDraft<{ readonly account: Account; readonly changes: Changes }>();

interface AccountDialogProps {
  readonly account: Account;
  readonly plans: readonly string[];
  readonly close: () => void;
}

export function AccountDialog({ account, plans, close }: AccountDialogProps) {
  const detail = useQuery(accountQuery(account.id));
  const me = useQuery(meQuery);
  const isOwn = me.data?.id === account.id;
  const [{ changes }, setDraft] = useDraft(accountDraft, { account, changes: {} });
  const [revoked, setRevoked] = useState<Revoked | null>(null);
  return (
    <Dialog
      title={<span className="name">{visibleName(account.email)}</span>}
      size="lg"
      close={close}
      // The question before it has Esc for itself.
      isKept={revoked !== null}
    >
      <Awaited query={detail} skeleton={<LinesSkeleton lines={8} height={30} />} />
      {detail.data !== undefined && (
        <div className="stack admin-account">
          <Rights
            account={detail.data}
            plans={plans}
            isOwn={isOwn}
            changes={changes}
            setChanges={(next) => setDraft({ account, changes: next })}
          />
          <section aria-label={t.use}>
            <h3 className="panel-title">{t.use}</h3>
            <OutcomeDays days={detail.data.days} caption={t.use} />
          </section>
          <Keys keyList={detail.data.keyList} revoke={setRevoked} />
          <Sessions account={detail.data} />
          {isOwn ? <p className="small dimmed">{t.own}</p> : <Ends account={detail.data} close={close} />}
        </div>
      )}
      {revoked !== null && <Revoke id={account.id} apiKey={revoked} close={() => setRevoked(null)} />}
    </Dialog>
  );
}

/** What is changed is read again, also in the list behind the dialog. */
function useChange(id: string, done: string, onDone: () => void = () => undefined) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({
      method,
      path = '',
      body,
    }: {
      readonly method: 'PUT' | 'DELETE';
      readonly path?: string;
      readonly body?: object;
    }) =>
      method === 'PUT'
        ? ask({ method, path: `/web/admin/accounts/${id}`, body, shape: AccountDetail })
        : ask({ method, path: `/web/admin/accounts/${id}${path}`, shape: Nothing }),
    onSuccess() {
      showDone(done);
      onDone();
    },
    onError: showProblem,
    onSettled: () => client.invalidateQueries({ queryKey: ['admin'] }),
  });
}

interface RightsProps {
  readonly account: AccountDetail;
  readonly plans: readonly string[];
  readonly isOwn: boolean;
  readonly changes: Changes;
  readonly setChanges: (changes: Changes) => void;
}

function Rights({ account, plans, isOwn, changes, setChanges }: RightsProps) {
  const { plan = account.plan, limit = account.ownLimit ?? '', role = account.role } = changes;
  const change = useChange(account.id, t.saved, () => setChanges({}));
  const wrong = limitError(limit);
  const known = plans.includes(account.plan) ? plans : [account.plan, ...plans];
  function save(): void {
    if (wrong !== null) return;
    const body = {
      ...(changes.plan === undefined ? {} : { plan }),
      ...(changes.limit === undefined ? {} : { ownLimit: limit === '' ? null : limit }),
      ...(changes.role === undefined ? {} : { role }),
    };
    if (Object.keys(body).length === 0) showDone(t.saved);
    else change.mutate({ method: 'PUT', body });
  }
  return (
    <Form className="admin-rights" sends={change} onSubmit={save}>
      <Select
        label={t.plan}
        data={[...known]}
        value={plan}
        onChange={(value) => setChanges({ ...changes, plan: value ?? account.plan })}
      />
      <NumberInput
        label={t.limit}
        placeholder={t.limitHint}
        value={limit}
        onChange={(value) => setChanges({ ...changes, limit: value })}
        clampBehavior="none"
        allowDecimal={false}
        allowNegative={false}
        error={wrong}
      />
      <Select
        label={t.role}
        data={Object.entries(t.roles).map(([value, label]) => ({ value, label }))}
        value={role}
        onChange={(value) => setChanges({ ...changes, role: value ?? account.role })}
        disabled={isOwn}
      />
      <Button type="submit" loading={change.isPending}>
        {t.save}
      </Button>
    </Form>
  );
}

type Revoked = Pick<AccountDetail['keyList'][number], 'uuid' | 'name'>;

function Revoke({ id, apiKey, close }: { readonly id: string; readonly apiKey: Revoked; readonly close: () => void }) {
  const change = useChange(id, keyTexts.revoked, close);
  return (
    <Question
      title={keyTexts.revokeTitle}
      text={keyTexts.revokeText(visibleName(apiKey.name))}
      action={keyTexts.revoke}
      isPending={change.isPending}
      act={() => change.mutate({ method: 'DELETE', path: `/keys/${apiKey.uuid}` })}
      close={close}
    />
  );
}

interface KeysProps {
  readonly keyList: AccountDetail['keyList'];
  readonly revoke: (apiKey: Revoked) => void;
}

function Keys({ keyList, revoke }: KeysProps) {
  return (
    <section aria-label={t.keys}>
      <h3 className="panel-title">{t.keys}</h3>
      {keyList.length === 0 && <p className="dimmed small">{t.noKeys}</p>}
      <ul className="admin-list">
        {keyList.map(({ uuid, name, value, lastUse }) => (
          <li key={uuid}>
            <span className="name">{visibleName(name)}</span>
            <span className="code small">
              {value.slice(0, 4)}…{value.slice(-4)}
            </span>
            <span className="small dimmed">{lastUse === null ? common.common.never : <Time at={lastUse} />}</span>
            <Button
              size="compact-sm"
              variant="light"
              color="red"
              aria-label={t.revokeOf(visibleName(name))}
              onClick={() => revoke({ uuid, name })}
            >
              {keyTexts.revoke}
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Sessions({ account: { id, sessionList } }: { readonly account: AccountDetail }) {
  const change = useChange(id, t.sessionsEnded);
  return (
    <section aria-label={t.sessions}>
      <div className="row row-apart">
        <h3 className="panel-title">{t.sessions}</h3>
        {sessionList.length > 0 && (
          <Button
            size="compact-sm"
            variant="light"
            color="red"
            onClick={() => change.mutate({ method: 'DELETE', path: '/sessions' })}
          >
            {t.endSessions}
          </Button>
        )}
      </div>
      {sessionList.length === 0 && <p className="dimmed small">{t.noSessions}</p>}
      <ul className="admin-list">
        {sessionList.map((session) => (
          <li key={session.id}>
            <span className="name">{deviceOf(session.userAgent)}</span>
            <span className="small">{session.ipAddress}</span>
            <span className="small dimmed">
              <Time at={session.lastUse} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Ends({ account, close }: { readonly account: AccountDetail; readonly close: () => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  const isSuspended = account.suspendedAt !== null;
  const suspend = useChange(account.id, isSuspended ? t.restored : t.suspended);
  const remove = useChange(account.id, t.deleted, close);
  return (
    <section className="stack admin-ends">
      <div className="row">
        <Button
          variant="light"
          color={isSuspended ? 'teal' : 'red'}
          loading={suspend.isPending}
          onClick={() => suspend.mutate({ method: 'PUT', body: { suspended: !isSuspended } })}
        >
          {isSuspended ? t.restore : t.suspend}
        </Button>
        {typed === null && (
          <Button variant="light" color="red" onClick={() => setTyped('')}>
            {t.delete}
          </Button>
        )}
      </div>
      {typed !== null && (
        <>
          <p className="name admin-question">{t.deleteText(visibleName(account.email))}</p>
          <TextInput
            label={t.deleteField}
            value={typed}
            autoComplete="off"
            onChange={({ currentTarget: { value } }) => setTyped(value)}
          />
          <div className="row">
            <Button variant="default" onClick={() => setTyped(null)}>
              {common.common.cancel}
            </Button>
            <Button
              color="red"
              disabled={typed !== account.email}
              loading={remove.isPending}
              onClick={() => remove.mutate({ method: 'DELETE' })}
            >
              {t.deleteSure}
            </Button>
          </div>
        </>
      )}
    </section>
  );
}
