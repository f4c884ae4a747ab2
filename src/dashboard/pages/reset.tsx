// Another password: asked for by the address, and set by the link that came.
import { Anchor, Button, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState, useSyncExternalStore } from 'react';
import { Link } from 'wouter';
import { askOpenly } from '../api/client.ts';
import { registrationQuery } from '../api/queries.ts';
import { Nothing } from '../api/shapes.ts';
import { emailError, newPasswordError } from '../parts/field-rules.ts';
import { Form } from '../parts/form.tsx';
import { Password } from '../parts/password.tsx';
import { errorAt, FormProblem, ProblemBox } from '../parts/problem.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { PageTitle } from '../parts/title.tsx';
import { texts } from '../texts.ts';
import { texts as own } from './protection-texts.ts';

const t = own.reset;

export function Reset() {
  // What is behind the # was sent to no server. The link may be opened where the page is already.
  const token = useSyncExternalStore(onHashChange, () => window.location.hash.slice(1));
  return (
    <div className="narrow">
      <PageTitle title={t.title} />
      <div className="panel stack">
        {token === '' ? <Asked /> : <NewPassword token={token} />}
        <Anchor component={Link} href="/sign-in" size="xs">
          {t.back}
        </Anchor>
      </div>
    </div>
  );
}

function onHashChange(changed: () => void): () => void {
  window.addEventListener('hashchange', changed);
  return () => window.removeEventListener('hashchange', changed);
}

function Asked() {
  const registration = useQuery(registrationQuery);
  if (registration.isPending) return <LinesSkeleton lines={3} height={36} />;
  if (registration.data === undefined) {
    return <ProblemBox error={registration.error} onRetry={() => void registration.refetch()} />;
  }
  return registration.data.passwordMail ? <RequestForm /> : <p className="name">{t.noMail}</p>;
}

function RequestForm() {
  const [email, setEmail] = useState('');
  const [isTried, setTried] = useState(false);
  const request = useMutation({
    mutationFn: () =>
      askOpenly({
        ...{ method: 'POST', path: '/web/auth/reset-request', body: { email }, shape: Nothing },
        isHarmless: true,
      }),
  });
  const wrong = emailError(email);
  function submit(): void {
    setTried(true);
    if (wrong === null) request.mutate();
  }
  if (request.isSuccess) return <p role="status">{t.sent}</p>;
  return (
    <Form onSubmit={submit} sends={request}>
      <p className="page-lead">{t.lead}</p>
      <FormProblem error={request.error} fields={['email']} />
      <TextInput
        label={texts.fields.email}
        type="email"
        autoComplete="username"
        value={email}
        onChange={({ currentTarget }) => setEmail(currentTarget.value)}
        error={(isTried && wrong) || errorAt(request.error, 'email')}
      />
      <Button type="submit" loading={request.isPending} fullWidth>
        {t.send}
      </Button>
    </Form>
  );
}

function NewPassword({ token }: { readonly token: string }) {
  const [newPassword, setNewPassword] = useState('');
  const [isTried, setTried] = useState(false);
  const reset = useMutation({
    mutationFn: () =>
      askOpenly({ method: 'POST', path: '/web/auth/reset', body: { token, newPassword }, shape: Nothing }),
  });
  const wrong = newPasswordError(newPassword);
  function submit(): void {
    setTried(true);
    if (wrong === null) reset.mutate();
  }
  if (reset.isSuccess) {
    return (
      <p role="status">
        {t.done}{' '}
        <Anchor component={Link} href="/sign-in">
          {texts.signIn.title}
        </Anchor>
      </p>
    );
  }
  return (
    <Form onSubmit={submit} sends={reset}>
      <FormProblem error={reset.error} fields={['newPassword']} />
      <Password
        label={texts.fields.newPassword}
        description={texts.register.passwordHint}
        autoComplete="new-password"
        value={newPassword}
        onChange={({ currentTarget }) => setNewPassword(currentTarget.value)}
        error={(isTried && wrong) || errorAt(reset.error, 'newPassword')}
      />
      <Button type="submit" loading={reset.isPending} fullWidth>
        {t.set}
      </Button>
    </Form>
  );
}
