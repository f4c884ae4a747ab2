// The account: who one is, the way in, and where one is signed in.
import { Button, TextInput } from '@mantine/core';
import { notifyManager, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ask } from '../api/client.ts';
import { OutcomeUnknown } from '../api/problem.ts';
import { meQuery } from '../api/queries.ts';
import { User } from '../api/shapes.ts';
import { Awaited } from '../parts/awaited.tsx';
import { newDraft, useDraft } from '../parts/draft.ts';
import { emailError, nameError, newPasswordError, passwordError } from '../parts/field-rules.ts';
import { Form } from '../parts/form.tsx';
import { showDone } from '../parts/notices.tsx';
import { CurrentPassword, Password } from '../parts/password.tsx';
import { errorAt, FormProblem } from '../parts/problem.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import { ProtectionPanels, ProtectionSkeletons } from './account-protection.tsx';
import { SessionsPanel } from './account-sessions.tsx';
import './account.css';

const t = texts.account;
const nameDraft = newDraft<string>();
const emailDraft = newDraft<string>();

export function Account() {
  const me = useQuery(meQuery);
  return (
    <>
      <PageTitle title={t.title} />
      <div className="account">
        <section className="panel">
          <h2 className="panel-title">{t.profile}</h2>
          <Awaited query={me} skeleton={<LinesSkeleton lines={4} height={36} />} />
          {me.data !== undefined && <NameForm user={me.data} />}
        </section>
        <section className="panel">
          <h2 className="panel-title">{t.changeEmail}</h2>
          <EmailForm />
        </section>
        <section className="panel">
          <h2 className="panel-title">{t.changePassword}</h2>
          <PasswordForm email={me.data?.email ?? ''} />
        </section>
        {me.data === undefined ? <ProtectionSkeletons /> : <ProtectionPanels user={me.data} />}
        <section className="panel account-sessions" aria-label={t.sessions}>
          <SessionsPanel />
        </section>
      </div>
    </>
  );
}

function useChange(done: string, onDone: (saved: User) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Readonly<Record<string, string>>) =>
      ask({ method: 'PUT', path: '/web/users/me', body, shape: User }),
    onSuccess(user) {
      client.setQueryData(meQuery.queryKey, user);
      showDone(done);
      // Queries tell of what they have a moment later: until then the field would show what was.
      notifyManager.schedule(() => onDone(user));
    },
    onSettled(_, error) {
      if (error instanceof OutcomeUnknown) void client.invalidateQueries({ queryKey: meQuery.queryKey });
      void client.invalidateQueries({ queryKey: ['sessions'] });
    },
  });
}

function NameForm({ user }: { readonly user: User }) {
  /** Null: as it is saved. */
  const [typed, setTyped] = useDraft<string | null>(nameDraft, null);
  const name = typed ?? user.name;
  const change = useChange(t.nameSaved, () => setTyped(null));
  function submit(): void {
    if (nameError(name) === null) change.mutate({ name });
  }
  return (
    <Form onSubmit={submit} sends={change}>
      <dl className="facts">
        <dt>{texts.fields.email}</dt>
        <dd className="name">{visibleName(user.email)}</dd>
        <dt>{t.since}</dt>
        <dd>
          <Time at={user.creationDate} as="day" />
        </dd>
      </dl>
      <TextInput
        label={t.name}
        autoComplete="name"
        value={name}
        // What is saved takes the place of what is typed.
        readOnly={change.isPending}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        error={name === user.name ? null : (nameError(name) ?? errorAt(change.error, 'name'))}
      />
      <FormProblem error={change.error} fields={['name']} />
      <div>
        <Button type="submit" loading={change.isPending} disabled={name === user.name}>
          {t.saveName}
        </Button>
      </div>
    </Form>
  );
}

function EmailForm() {
  const [email, setEmail] = useDraft(emailDraft, '');
  const [currentPassword, setCurrentPassword] = useState('');
  const [isTried, setTried] = useState(false);
  const change = useChange(t.emailSaved, () => {
    setEmail('');
    setCurrentPassword('');
    setTried(false);
  });
  const errors = { email: emailError(email), password: passwordError(currentPassword) };
  function submit(): void {
    setTried(true);
    if (errors.email === null && errors.password === null) change.mutate({ email, currentPassword });
  }
  return (
    <Form onSubmit={submit} sends={change}>
      <TextInput
        label={t.newEmail}
        type="email"
        autoComplete="email"
        value={email}
        onChange={({ currentTarget }) => setEmail(currentTarget.value)}
        error={(isTried && errors.email) || errorAt(change.error, 'email')}
      />
      <CurrentPassword
        value={currentPassword}
        setValue={setCurrentPassword}
        error={(isTried && errors.password) || errorAt(change.error, 'currentPassword')}
      />
      <FormProblem error={change.error} fields={['email', 'currentPassword']} />
      <div>
        <Button type="submit" loading={change.isPending}>
          {t.saveEmail}
        </Button>
      </div>
    </Form>
  );
}

function PasswordForm({ email }: { readonly email: string }) {
  const [newPassword, setNewPassword] = useState('');
  const [currentPassword, setCurrentPassword] = useState('');
  const [isTried, setTried] = useState(false);
  const change = useChange(t.passwordSaved, () => {
    setNewPassword('');
    setCurrentPassword('');
    setTried(false);
  });
  const errors = { current: passwordError(currentPassword), next: newPasswordError(newPassword) };
  function submit(): void {
    setTried(true);
    if (errors.current === null && errors.next === null) change.mutate({ newPassword, currentPassword });
  }
  return (
    <Form onSubmit={submit} sends={change}>
      {/* For managers of passwords, which ask whose it is. */}
      <input
        className="unseen"
        type="text"
        autoComplete="username"
        value={email}
        readOnly
        tabIndex={-1}
        aria-hidden="true"
      />
      <CurrentPassword
        value={currentPassword}
        setValue={setCurrentPassword}
        error={(isTried && errors.current) || errorAt(change.error, 'currentPassword')}
      />
      <Password
        label={texts.fields.newPassword}
        description={t.passwordHint}
        autoComplete="new-password"
        value={newPassword}
        onChange={({ currentTarget }) => setNewPassword(currentTarget.value)}
        error={(isTried && errors.next) || errorAt(change.error, 'newPassword')}
      />
      <FormProblem error={change.error} fields={['newPassword', 'currentPassword']} />
      <div>
        <Button type="submit" loading={change.isPending}>
          {t.savePassword}
        </Button>
      </div>
    </Form>
  );
}
