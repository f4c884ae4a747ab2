// Signing in: with the reason when a session has ended, and back to the page that was left.
import { Alert, Anchor, Button, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { Problem } from '../api/problem.ts';
import { registrationQuery } from '../api/queries.ts';
import { emailError, passwordError } from '../parts/field-rules.ts';
import { Form } from '../parts/form.tsx';
import { Password } from '../parts/password.tsx';
import { errorAt, FormProblem } from '../parts/problem.tsx';
import { useSearchParams } from '../parts/search-params.ts';
import { useSignIn } from '../parts/sign-in-mutation.ts';
import { PageTitle } from '../parts/title.tsx';
import { texts } from '../texts.ts';

const t = texts.signIn;

export function SignIn() {
  const [search] = useSearchParams();
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const [isTried, setTried] = useState(false);
  const signIn = useSignIn('/web/auth/login');
  const needsCode = useNeedsCode(signIn.error);
  const errors = { email: emailError(email), password: passwordError(password) };

  function submit(): void {
    setTried(true);
    if (errors.email === null && errors.password === null) {
      signIn.mutate({ email, password, ...(needsCode && code !== '' ? { code } : {}) });
    }
  }

  return (
    <div className="narrow">
      <PageTitle title={t.title} />
      <div className="panel stack">
        <Reason reason={search.get('reason')} />
        {!isCodeMissing(signIn.error) && <FormProblem error={signIn.error} fields={['email', 'password', 'code']} />}
        <Form onSubmit={submit} sends={signIn}>
          <TextInput
            label={texts.fields.email}
            type="email"
            name="email"
            autoComplete="username"
            value={email}
            onChange={({ currentTarget }) => setEmail(currentTarget.value)}
            error={(isTried && errors.email) || errorAt(signIn.error, 'email')}
            autoFocus
          />
          <Password
            label={texts.fields.password}
            name="password"
            autoComplete="current-password"
            value={password}
            onChange={({ currentTarget }) => setPassword(currentTarget.value)}
            error={(isTried && errors.password) || errorAt(signIn.error, 'password')}
          />
          {needsCode && (
            <TextInput
              label={t.code}
              description={t.codeHint}
              name="code"
              autoComplete="one-time-code"
              value={code}
              onChange={({ currentTarget }) => setCode(currentTarget.value)}
              error={errorAt(signIn.error, 'code')}
              autoFocus
            />
          )}
          <Button type="submit" loading={signIn.isPending} fullWidth>
            {t.submit}
          </Button>
        </Form>
        <Anchor component={Link} href="/reset" size="xs">
          {t.forgotten}
        </Anchor>
        <RegisterHint />
      </div>
    </div>
  );
}

/** The service says so to who knows the password. */
function isCodeMissing(error: unknown): boolean {
  return error instanceof Problem && error.message === 'Two-factor code missing';
}

/** Once it is known that there is a second factor, its field stays. */
function useNeedsCode(error: unknown): boolean {
  const [isKnown, setKnown] = useState(false);
  if (!isKnown && isCodeMissing(error)) setKnown(true);
  return isKnown;
}

function Reason({ reason }: { readonly reason: string | null }) {
  if (reason !== 'ended' && reason !== 'signedOut' && reason !== 'notKept') return null;
  return (
    <Alert color="blue" role="status">
      {t.reasons[reason]}
    </Alert>
  );
}

function RegisterHint() {
  const registration = useQuery(registrationQuery);
  const [search] = useSearchParams();
  const next = search.get('next');
  if (registration.data === undefined) return null;
  if (registration.data.registration !== 'open') return <p className="dimmed small name">{t.closed}</p>;
  return (
    <p className="small">
      {t.register}{' '}
      <Anchor
        component={Link}
        href={next === null ? '/register' : `/register?${new URLSearchParams({ next })}`}
        inherit
      >
        {t.registerLink}
      </Anchor>
    </p>
  );
}
