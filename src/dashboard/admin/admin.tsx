// The pages of operators, and the way between them. Who is none finds no page here, and the service would answer nothing.
import { useQuery } from '@tanstack/react-query';
import { Link, Route, Switch, useLocation } from 'wouter';
import { meQuery } from '../api/queries.ts';
import { NotFound } from '../pages/not-found.tsx';
import { Awaited } from '../parts/awaited.tsx';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { PageTitle } from '../parts/title.tsx';
import { texts as common } from '../texts.ts';
import { AccountsPage } from './accounts.tsx';
import { ActivityPage } from './activity.tsx';
import { AuditPage } from './audit.tsx';
import { HealthPage } from './health.tsx';
import { texts } from './texts.ts';
import './admin.css';

const pages = [
  ['/admin', texts.pages.health],
  ['/admin/accounts', texts.pages.accounts],
  ['/admin/activity', texts.pages.activity],
  ['/admin/audit', texts.pages.audit],
] as const;

export function Admin() {
  const [location] = useLocation();
  const me = useQuery(meQuery);
  if (me.data === undefined) {
    return (
      <>
        <PageTitle title={common.nav.admin} />
        <Awaited query={me} skeleton={<PageSkeleton />} />
      </>
    );
  }
  if (me.data.role !== 'operator') return <NotFound />;
  return (
    <>
      <nav className="admin-nav" aria-label={texts.nav}>
        {pages.map(([path, label]) => (
          <Link key={path} href={path} className="admin-link" aria-current={location === path ? 'page' : undefined}>
            {label}
          </Link>
        ))}
      </nav>
      <Switch>
        <Route path="/admin" component={HealthPage} />
        <Route path="/admin/accounts" component={AccountsPage} />
        <Route path="/admin/activity" component={ActivityPage} />
        <Route path="/admin/audit" component={AuditPage} />
        <Route component={NotFound} />
      </Switch>
    </>
  );
}
