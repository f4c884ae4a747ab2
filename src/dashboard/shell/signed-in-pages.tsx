// The pages of somebody who is signed in. They are one script: going from one to another fetches nothing.
import { Route, Switch } from 'wouter';
import { Account } from '../pages/account.tsx';
import { BillingPage } from '../pages/billing.tsx';
import { History } from '../pages/history.tsx';
import { Keys } from '../pages/keys.tsx';
import { Overview } from '../pages/overview.tsx';
import { ScanPage } from '../pages/scan.tsx';
import { ScanDetailPage } from '../pages/scan-detail.tsx';
import { WebhookPage } from '../pages/webhook.tsx';
import { Webhooks } from '../pages/webhooks.tsx';
import '../parts/table.css';
import { OperatorNotice } from '../parts/engine-notice.tsx';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { part } from './part.tsx';

// Few need them: they are a script of their own.
const Admin = part(async () => (await import('../admin/admin.tsx')).Admin, <PageSkeleton />);

export { Notices } from '../parts/notices.tsx';
export { UserMenu } from './user-menu.tsx';

export function SignedInPages() {
  return (
    <>
      <OperatorNotice />
      <Switch>
        <Route path="/" component={Overview} />
        <Route path="/scan" component={ScanPage} />
        <Route path="/scans/:id" component={ScanDetailPage} />
        <Route path="/history" component={History} />
        <Route path="/keys" component={Keys} />
        <Route path="/webhooks" component={Webhooks} />
        <Route path="/webhooks/:id" component={WebhookPage} />
        <Route path="/billing" component={BillingPage} />
        <Route path="/account" component={Account} />
        <Route path="/admin/:page?" component={Admin} />
      </Switch>
    </>
  );
}
