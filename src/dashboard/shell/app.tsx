// Which page an address is, for whom; and what happens when the session ends.
import { useEffect, useState } from 'react';
import { Redirect, Route, Switch, useLocation } from 'wouter';
import { queries } from '../api/query-client.ts';
import { onSessionEnd } from '../api/session.ts';
import { Docs } from '../pages/docs.tsx';
import { Landing } from '../pages/landing.tsx';
import { NotFound } from '../pages/not-found.tsx';
import { Register } from '../pages/register.tsx';
import { Reset } from '../pages/reset.tsx';
import { SignIn } from '../pages/sign-in.tsx';
import { useSearchParams } from '../parts/search-params.ts';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { queue } from '../scan/queue.ts';
import { Boundary } from './boundary.tsx';
import { Layout } from './layout.tsx';
import { part } from './part.tsx';
import { returnAddress, signInAddress } from './return-address.ts';
import { useSignedIn } from './use-signed-in.ts';

// What somebody needs who is not signed in comes with the first script; the pages behind the sign-in come as one more, guides and the reference apart.
const SignedInPages = part(async () => (await import('./signed-in-pages.tsx')).SignedInPages, <PageSkeleton />);

const Notices = part(async () => (await import('./signed-in-pages.tsx')).Notices, null);

const behindSignIn = [
  '/scan',
  '/scans/:id',
  '/history',
  '/keys',
  '/webhooks/:id?',
  '/billing',
  '/account',
  '/admin/:page?',
];

export function App() {
  const [location, navigate] = useLocation();
  const signedIn = useSignedIn();
  // They outlive the session: that the account is deleted is said when nobody is signed in any more.
  const [hasNotices, setHasNotices] = useState(signedIn);
  if (signedIn && !hasNotices) setHasNotices(true);
  useEffect(
    () =>
      onSessionEnd((reason) => {
        if (reason === 'signedOut') queue.clear();
        queries.clear();
        navigate(signInAddress(reason));
      }),
    [navigate],
  );
  return (
    <Layout>
      <Boundary location={location}>
        <Pages />
        {hasNotices && <Notices />}
      </Boundary>
    </Layout>
  );
}

/** Another tab has signed in, or a link leads to the sign-in. */
function GoOn() {
  const [search] = useSearchParams();
  return <Redirect to={returnAddress(search.get('next'))} replace />;
}

function Pages() {
  const signedIn = useSignedIn();
  return (
    <Switch>
      <Route path="/">{signedIn ? <SignedInPages /> : <Landing />}</Route>
      <Route path="/sign-in">{signedIn ? <GoOn /> : <SignIn />}</Route>
      <Route path="/register">{signedIn ? <GoOn /> : <Register />}</Route>
      <Route path="/reset">
        <Reset />
      </Route>
      <Route path="/docs/:guide?">{({ guide }) => <Docs guide={guide ?? null} />}</Route>
      {behindSignIn.map((path) => (
        <Route key={path} path={path}>
          {signedIn ? <SignedInPages /> : <Redirect to={signInAddress(null)} replace />}
        </Route>
      ))}
      <Route>
        <NotFound />
      </Route>
    </Switch>
  );
}
