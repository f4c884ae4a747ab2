// What protects the account: a second factor with its recovery codes, and the end of the account.
import { Alert, Button, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { renderSVG } from 'uqr';
import { useLocation } from 'wouter';
import { ask } from '../api/client.ts';
import { OutcomeUnknown } from '../api/problem.ts';
import { meQuery } from '../api/queries.ts';
import { forgetSession } from '../api/session.ts';
import { Enrolment, Nothing, Recovery, type User } from '../api/shapes.ts';
import { CopyButton } from '../parts/copy-button.tsx';
import { Dialog, Step } from '../parts/dialog.tsx';
import { showDone } from '../parts/notices.tsx';
import { CurrentPassword } from '../parts/password.tsx';
import { errorAt } from '../parts/problem.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { queue } from '../scan/queue.ts';
import { texts as own } from './protection-texts.ts';

const t = own.protection;
const PATH = '/web/users/me';
/** Those that say what the service has against them. */
const FIELDS = ['currentPassword', 'code'];

type Open = 'enrol' | 'remove' | 'delete' | null;

export function ProtectionPanels({ user }: { readonly user: User }) {
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  return (
    <>
      <section className="panel">
        <h2 className="panel-title">{t.twoFactor}</h2>
        <p className="dimmed account-text">{user.twoFactor ? t.isOn : t.isOff}</p>
        {user.twoFactor ? (
          <Button variant="default" onClick={() => setOpen('remove')}>
            {t.turnOff}
          </Button>
        ) : (
          <Button onClick={() => setOpen('enrol')}>{t.turnOn}</Button>
        )}
      </section>
      <section className="panel">
        <h2 className="panel-title">{t.delete}</h2>
        <p className="dimmed account-text">{t.deleteLead}</p>
        <Button color="red" variant="light" onClick={() => setOpen('delete')}>
          {t.delete}
        </Button>
      </section>
      {open === 'enrol' && <Enrol close={close} />}
      {open === 'remove' && <Remove close={close} />}
      {open === 'delete' && <Delete close={close} />}
    </>
  );
}

/** Of their size, so that what is below them stays where it is. */
export function ProtectionSkeletons() {
  return [t.twoFactor, t.delete].map((title) => (
    <section key={title} className="panel">
      <h2 className="panel-title">{title}</h2>
      <LinesSkeleton lines={2} height={36} />
    </section>
  ));
}

interface CodeProps {
  readonly value: string;
  readonly setValue: (value: string) => void;
  /** What the service said. */
  readonly error: unknown;
  readonly autoFocus?: boolean;
}

function CodeField({ value, setValue, error, autoFocus = false }: CodeProps) {
  return (
    <TextInput
      label={t.code}
      autoComplete="one-time-code"
      value={value}
      onChange={({ currentTarget }) => setValue(currentTarget.value)}
      error={errorAt(error, 'code')}
      autoFocus={autoFocus}
    />
  );
}

function Enrol({ close }: { readonly close: () => void }) {
  const client = useQueryClient();
  const [currentPassword, setPassword] = useState('');
  const [code, setCode] = useState('');
  const begin = useMutation({
    mutationFn: () =>
      ask({
        ...{ method: 'POST', path: `${PATH}/two-factor`, body: { currentPassword }, shape: Enrolment },
        isHarmless: true,
      }),
  });
  const confirm = useMutation({
    mutationFn: () => ask({ method: 'POST', path: `${PATH}/two-factor/confirmation`, body: { code }, shape: Recovery }),
    onSuccess: () => client.invalidateQueries({ queryKey: ['sessions'] }),
    onError(error) {
      if (error instanceof OutcomeUnknown) void client.invalidateQueries({ queryKey: meQuery.queryKey });
    },
  });
  function end(): void {
    void client.invalidateQueries({ queryKey: meQuery.queryKey });
    close();
  }
  if (confirm.data !== undefined) {
    return (
      <Dialog title={t.codes} close={end} isKept>
        <div className="stack">
          <Alert color="yellow">{t.codesOnce}</Alert>
          <pre className="code account-codes" tabIndex={-1} ref={focusIt}>
            {confirm.data.recoveryCodes.join('\n')}
          </pre>
          <CopyButton text={confirm.data.recoveryCodes.join('\n')} />
          <Button onClick={end}>{t.codesKept}</Button>
        </div>
      </Dialog>
    );
  }
  if (begin.data !== undefined) {
    const { secret, uri } = begin.data;
    return (
      <Dialog title={t.twoFactor} close={close}>
        <Step sends={confirm} action={t.confirm} fields={FIELDS} onSubmit={() => confirm.mutate()}>
          <p className="account-text">{t.scan}</p>
          <img
            className="account-picture"
            alt={t.picture}
            src={`data:image/svg+xml,${encodeURIComponent(renderSVG(uri))}`}
          />
          <p className="code account-text">{secret}</p>
          <CodeField value={code} setValue={setCode} error={confirm.error} autoFocus />
        </Step>
      </Dialog>
    );
  }
  return (
    <Dialog title={t.twoFactor} close={close}>
      <Step sends={begin} action={t.next} fields={FIELDS} onSubmit={() => begin.mutate()}>
        <CurrentPassword
          value={currentPassword}
          setValue={setPassword}
          error={errorAt(begin.error, 'currentPassword')}
        />
      </Step>
    </Dialog>
  );
}

/** What took its place is gone. */
function focusIt(element: HTMLElement | null): void {
  element?.focus();
}

function Remove({ close }: { readonly close: () => void }) {
  const client = useQueryClient();
  const [currentPassword, setPassword] = useState('');
  const [code, setCode] = useState('');
  const remove = useMutation({
    mutationFn: () =>
      ask({ method: 'POST', path: `${PATH}/two-factor/removal`, body: { currentPassword, code }, shape: Nothing }),
    onSuccess() {
      showDone(t.turnedOff);
      close();
    },
    onSettled: () => client.invalidateQueries({ queryKey: meQuery.queryKey }),
  });
  return (
    <Dialog title={t.turnOff} close={close}>
      <Step sends={remove} action={t.turnOff} fields={FIELDS} onSubmit={() => remove.mutate()}>
        <CurrentPassword
          value={currentPassword}
          setValue={setPassword}
          error={errorAt(remove.error, 'currentPassword')}
        />
        <CodeField value={code} setValue={setCode} error={remove.error} />
      </Step>
    </Dialog>
  );
}

function Delete({ close }: { readonly close: () => void }) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [currentPassword, setPassword] = useState('');
  const remove = useMutation({
    mutationFn: () => ask({ method: 'POST', path: `${PATH}/deletion`, body: { currentPassword }, shape: Nothing }),
    onSuccess() {
      queue.clear();
      forgetSession();
      client.clear();
      navigate('/');
      showDone(t.deleted);
    },
  });
  return (
    <Dialog title={t.delete} close={close}>
      <Step sends={remove} action={t.deleteSure} color="red" fields={FIELDS} onSubmit={() => remove.mutate()}>
        <p className="account-text">{t.deleteText}</p>
        <CurrentPassword
          value={currentPassword}
          setValue={setPassword}
          error={errorAt(remove.error, 'currentPassword')}
        />
      </Step>
    </Dialog>
  );
}
