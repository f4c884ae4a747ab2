// Making an account, where the operator lets anybody.
import { Anchor, Button, PasswordInput, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { Link, useSearch } from 'wouter';
import { registrationQuery } from '../api/queries.ts';
import { Blank } from '../parts/blank.tsx';
import { emailError, newPasswordError } from '../parts/form.ts';
import { FormProblem, ProblemBox } from '../parts/problem.tsx';
import { useSignIn } from '../parts/sign-in-mutation.ts';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { PageTitle } from '../parts/title.tsx';
import { texts } from '../texts.ts';

const t = texts.register;

export function Register() {
  const registration = useQuery(registrationQuery);
  return (
    <div className="narrow">
      <PageTitle title={t.title} />
      <div className="panel stack">
        {registration.isPending && <LinesSkeleton lines={4} height={36} />}
        {registration.isError && <ProblemBox error={registration.error} onRetry={() => void registration.refetch()} />}
        {registration.data?.registration === 'closed' && <Closed />}
        {registration.data?.registration === 'open' && <Form />}
      </div>
    </div>
  );
}

function Closed() {
  return (
    <Blank title={t.closedTitle} hint={t.closed}>
      <Button component={Link} href="/sign-in">
        {t.signInLink}
      </Button>
    </Blank>
  );
}

function Form() {
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [isTried, setTried] = useState(false);
  const register = useSignIn('/web/auth/register');
  const query = useSearch();
  const errors = { email: emailError(email), password: newPasswordError(password) };

  function submit(event: FormEvent): void {
    event.preventDefault();
    setTried(true);
    if (errors.email === null && errors.password === null) register.mutate({ name, email, password });
  }

  return (
    <>
      <FormProblem error={register.error} />
      <form onSubmit={submit} noValidate className="stack">
        <TextInput
          label={t.name}
          description={t.nameHint}
          autoComplete="name"
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <TextInput
          label={t.email}
          type="email"
          autoComplete="username"
          value={email}
          onChange={({ currentTarget }) => setEmail(currentTarget.value)}
          error={isTried && errors.email}
        />
        <PasswordInput
          label={t.password}
          description={t.passwordHint}
          autoComplete="new-password"
          value={password}
          onChange={({ currentTarget }) => setPassword(currentTarget.value)}
          error={isTried && errors.password}
        />
        <Button type="submit" loading={register.isPending} fullWidth>
          {t.submit}
        </Button>
      </form>
      <p className="small">
        {t.signIn}{' '}
        <Anchor component={Link} href={query === '' ? '/sign-in' : `/sign-in?${query}`} inherit>
          {t.signInLink}
        </Anchor>
      </p>
    </>
  );
}
