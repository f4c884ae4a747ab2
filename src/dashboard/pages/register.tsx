// Making an account, where the operator lets anybody.
import { Anchor, Button, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { useSearch } from 'wouter/use-browser-location';
import { registrationQuery } from '../api/queries.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { emailError, newPasswordError } from '../parts/field-rules.ts';
import { Form } from '../parts/form.tsx';
import { Password } from '../parts/password.tsx';
import { errorAt, FormProblem } from '../parts/problem.tsx';
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
        <Awaited query={registration} skeleton={<LinesSkeleton lines={4} height={36} />} />
        {registration.data?.registration === 'closed' && <Closed />}
        {registration.data?.registration === 'open' && <RegisterForm />}
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

function RegisterForm() {
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [isTried, setTried] = useState(false);
  const register = useSignIn('/web/auth/register');
  const query = useSearch();
  const errors = { email: emailError(email), password: newPasswordError(password) };

  function submit(): void {
    setTried(true);
    if (errors.email === null && errors.password === null) register.mutate({ name, email, password });
  }

  return (
    <>
      <FormProblem error={register.error} fields={['name', 'email', 'password']} />
      <Form onSubmit={submit} sends={register}>
        <TextInput
          label={t.name}
          description={t.nameHint}
          autoComplete="name"
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
          error={errorAt(register.error, 'name')}
        />
        <TextInput
          label={texts.fields.email}
          type="email"
          autoComplete="username"
          value={email}
          onChange={({ currentTarget }) => setEmail(currentTarget.value)}
          error={(isTried && errors.email) || errorAt(register.error, 'email')}
        />
        <Password
          label={texts.fields.password}
          description={t.passwordHint}
          autoComplete="new-password"
          value={password}
          onChange={({ currentTarget }) => setPassword(currentTarget.value)}
          error={(isTried && errors.password) || errorAt(register.error, 'password')}
        />
        <Button type="submit" loading={register.isPending} fullWidth>
          {t.submit}
        </Button>
      </Form>
      <p className="small">
        {t.signIn}{' '}
        <Anchor component={Link} href={`/sign-in${query}`} inherit>
          {t.signInLink}
        </Anchor>
      </p>
    </>
  );
}
