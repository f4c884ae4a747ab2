// Which page an address is, for whom; and what happens when the session ends.
import { lazy, Suspense, useEffect } from 'react';
import { Redirect, Route, Switch, useLocation } from 'wouter';
import { queries } from '../api/query-client.ts';
import { onSessionEnd } from '../api/session.ts';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { Boundary } from './boundary.tsx';
import { Layout } from './layout.tsx';
import { signInAddress } from './return-address.ts';
import { useSignedIn } from './use-signed-in.ts';

const pages = {
  landing: lazy(async () => ({ default: (await import('../pages/landing.tsx')).Landing })),
  signIn: lazy(async () => ({ default: (await import('../pages/sign-in.tsx')).SignIn })),
  register: lazy(async () => ({ default: (await import('../pages/register.tsx')).Register })),
  overview: lazy(async () => ({ default: (await import('../pages/overview.tsx')).Overview })),
  scan: lazy(async () => ({ default: (await import('../pages/scan.tsx')).ScanPage })),
  history: lazy(async () => ({ default: (await import('../pages/history.tsx')).History })),
  keys: lazy(async () => ({ default: (await import('../pages/keys.tsx')).Keys })),
  billing: lazy(async () => ({ default: (await import('../pages/billing.tsx')).BillingPage })),
  account: lazy(async () => ({ default: (await import('../pages/account.tsx')).Account })),
  docs: lazy(async () => ({ default: (await import('../pages/docs.tsx')).Docs })),
  notFound: lazy(async () => ({ default: (await import('../pages/not-found.tsx')).NotFound })),
};

export function App() {
  const [, navigate] = useLocation();
  useEffect(
    () =>
      onSessionEnd((reason) => {
        queries.clear();
        navigate(signInAddress(reason));
      }),
    [navigate],
  );
  return (
    <Layout>
      <Boundary>
        <Suspense fallback={<PageSkeleton />}>
          <Pages />
        </Suspense>
      </Boundary>
    </Layout>
  );
}

const behindSignIn = [
  ['/scan', pages.scan],
  ['/history', pages.history],
  ['/keys', pages.keys],
  ['/billing', pages.billing],
  ['/account', pages.account],
] as const;

function Pages() {
  const signedIn = useSignedIn();
  return (
    <Switch>
      <Route path="/">{signedIn ? <pages.overview /> : <pages.landing />}</Route>
      <Route path="/sign-in">
        <pages.signIn />
      </Route>
      <Route path="/register">
        <pages.register />
      </Route>
      {behindSignIn.map(([path, Page]) => (
        <Route key={path} path={path}>
          {signedIn ? <Page /> : <Redirect to={signInAddress(null)} replace />}
        </Route>
      ))}
      <Route path="/docs/:guide?">{({ guide }) => <pages.docs guide={guide ?? null} />}</Route>
      <Route>
        <pages.notFound />
      </Route>
    </Switch>
  );
}
