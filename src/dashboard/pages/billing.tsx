// Billing: the plan, what others cost, the ways to Stripe, and what came of a checkout.
import { Alert, Badge, Button, Loader, Skeleton } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { ask } from '../api/client.ts';
import { billingQuery } from '../api/queries.ts';
import { type Billing, type Price, Redirect } from '../api/shapes.ts';
import { Awaited } from '../parts/awaited.tsx';
import { number, price as written } from '../parts/format.ts';
import { showProblem } from '../parts/notices.tsx';
import { useSearchParams } from '../parts/search-params.ts';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { texts } from '../texts.ts';
import { CheckoutReturn } from './billing-return.tsx';
import { QuotaPanel } from './overview-quota.tsx';
import './billing.css';

const t = texts.billing;

export function BillingPage() {
  const [search] = useSearchParams();
  const billing = useQuery(billingQuery);
  const checkoutId = search.get('checkoutSessionId');
  return (
    <>
      <PageTitle title={t.title} />
      <div className="stack">
        {checkoutId !== null && <CheckoutReturn key={checkoutId} id={checkoutId} />}
        <Awaited query={billing} skeleton={<LinesSkeleton lines={5} height={40} />} />
        {billing.data !== undefined && <Plans billing={billing.data} />}
      </div>
    </>
  );
}

/** Statuses with a subscription behind them, which is changed at Stripe and not bought twice. */
const SUBSCRIBED = ['active', 'trialing', 'past_due', 'unpaid', 'paused'];

function Plans({ billing }: { readonly billing: Billing }) {
  const isPending = billing.plans.some(({ pricePending }) => pricePending === true);
  const isSold = isPending || billing.plans.some(({ price }) => price !== null);
  const free = freePlanOf(billing);
  const isSubscribed = SUBSCRIBED.includes(billing.status);
  return (
    <>
      <div className="billing-plans">
        <section className="panel">
          <h2 className="panel-title">{t.plan}</h2>
          <p className="billing-plan">{billing.plan}</p>
          <p className="dimmed billing-line">{t.perHour(billing.hourlyLimit, number(billing.hourlyLimit))}</p>
          <Status billing={billing} />
          {billing.status !== 'none' && <Portal />}
        </section>
        <section className="panel">
          <h2 className="panel-title">{texts.overview.quota}</h2>
          <QuotaPanel />
        </section>
      </div>
      {isSold || billing.status !== 'none' ? null : (
        <Alert color="blue" title={t.off}>
          {t.offHint}
        </Alert>
      )}
      {isPending && (
        <Alert color="blue" role="status" icon={<Loader size="xs" />}>
          {t.pricesPending}
        </Alert>
      )}
      <section aria-label={t.plans} className="billing-plans">
        {billing.plans.map((plan) => (
          <PlanCard
            key={plan.name}
            plan={plan}
            isCurrent={plan.name === billing.plan}
            canBuy={!isSubscribed}
            isSold={isSold}
            isFree={plan === free}
          />
        ))}
      </section>
    </>
  );
}

/** What an account has that pays for none: the smallest plan without a price. */
function freePlanOf({ plans }: Billing) {
  const priceless = plans.filter(({ price, pricePending }) => price === null && pricePending !== true);
  return priceless.toSorted((one, other) => one.hourlyLimit - other.hourlyLimit)[0];
}

function Status({ billing: { status, currentPeriodEnd, cancelAtPeriodEnd } }: { readonly billing: Billing }) {
  if (status === 'none') return null;
  const known: Readonly<Record<string, string>> = t.status;
  return (
    <p className="billing-line">
      {known[status] ?? status}
      {currentPeriodEnd !== null && (
        <>
          {' · '}
          {cancelAtPeriodEnd ? t.ends : t.renews} <Time at={currentPeriodEnd} as="day" />
        </>
      )}
    </p>
  );
}

function Portal() {
  const portal = useMutation({
    mutationFn: () => ask({ method: 'POST', path: '/web/billing/portal-session', shape: Redirect, isHarmless: true }),
    onSuccess: leaveFor,
    onError: showProblem,
  });
  return (
    <div className="billing-portal">
      <Button variant="default" loading={portal.isPending} onClick={() => portal.mutate()}>
        {t.manage}
      </Button>
      <p className="dimmed small">{t.manageHint}</p>
    </div>
  );
}

function leaveFor({ url }: { readonly url: string }): void {
  window.location.assign(url);
}

interface PlanCardProps {
  readonly plan: Billing['plans'][number];
  readonly isCurrent: boolean;
  readonly canBuy: boolean;
  readonly isSold: boolean;
  readonly isFree: boolean;
}

function PlanCard({ plan, isCurrent, canBuy, isSold, isFree }: PlanCardProps) {
  const checkout = useMutation({
    mutationFn: () =>
      ask({
        ...{ method: 'POST', path: '/web/billing/checkout-session', body: { plan: plan.name }, shape: Redirect },
        // The same plan again leads to the same checkout.
        isHarmless: true,
      }),
    onSuccess: leaveFor,
    onError: showProblem,
  });
  return (
    <section className="panel billing-card" data-current={isCurrent}>
      <div className="row row-apart">
        <h2 className="panel-title">{plan.name}</h2>
        {isCurrent && <Badge>{t.current}</Badge>}
      </div>
      {isSold && <PriceLine plan={plan} isFree={isFree} />}
      <p className="dimmed billing-line">{t.perHour(plan.hourlyLimit, number(plan.hourlyLimit))}</p>
      {(plan.price !== null || plan.pricePending === true) && !isCurrent && canBuy && (
        <div>
          <Button disabled={plan.price === null} loading={checkout.isPending} onClick={() => checkout.mutate()}>
            {t.choose(plan.name)}
          </Button>
        </div>
      )}
    </section>
  );
}

function PriceLine({ plan: { price, pricePending }, isFree }: Pick<PlanCardProps, 'plan' | 'isFree'>) {
  if (price !== null) return <p className="billing-price">{priceOf(price)}</p>;
  const text = isFree ? t.free : t.notSold;
  return <div className="billing-price">{pricePending === true ? <Skeleton height={24} width="8rem" /> : text}</div>;
}

function priceOf({ amount, currency, interval }: Price): string {
  const intervals: Readonly<Record<string, string>> = t.intervals;
  const text = written(amount, currency);
  return interval === null ? text : t.price(text, intervals[interval] ?? interval);
}
