// The first page for who is not signed in: what this is, and the one line that uses it.
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { Link } from 'wouter';
import { registrationQuery } from '../api/queries.ts';
import { curlLine } from '../parts/examples.ts';
import { Snippet } from '../parts/snippet.tsx';
import { texts } from '../texts.ts';
import './landing.css';

const t = texts.landing;

export function Landing() {
  const registration = useQuery(registrationQuery);
  useEffect(() => {
    document.title = texts.product;
  }, []);
  return (
    <div className="landing">
      <section className="landing-hero">
        <h1>{t.title}</h1>
        <p className="landing-lead">{t.lead}</p>
        <div className="row">
          <Button component={Link} href="/sign-in" size="md">
            {texts.nav.signIn}
          </Button>
          <Button component={Link} href="/docs/quick-start" size="md" variant="default">
            {t.docs}
          </Button>
          {registration.data?.registration === 'open' && (
            <Button component={Link} href="/register" size="md" variant="default">
              {t.register}
            </Button>
          )}
        </div>
      </section>
      <section className="panel landing-try">
        <h2 className="panel-title">{t.try}</h2>
        <p className="page-lead">{t.tryLead}</p>
        <Snippet label={t.try} code={curlLine('YOUR_API_KEY')} output={EXAMPLE_ANSWER} />
      </section>
      <div className="landing-points">
        {t.points.map(({ title, text }) => (
          <section key={title} className="panel">
            <h2 className="panel-title">{title}</h2>
            <p className="dimmed">{text}</p>
          </section>
        ))}
      </div>
    </div>
  );
}

const EXAMPLE_ANSWER = JSON.stringify(
  {
    filename: 'eicar.com',
    extension: 'com',
    sizeInBytes: 68,
    scanDurationMillis: 1,
    infected: true,
    virusName: 'Eicar-Test-Signature',
  },
  null,
  2,
);
