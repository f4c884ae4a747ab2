// What pages ask for, as queries with a name each, so that a change made by one page reaches the others.
import { queryOptions } from '@tanstack/react-query';
import { type Ask, ask, askOpenly } from './client.ts';
import {
  Billing,
  Counts,
  Days,
  Hours,
  Keys,
  KeyUsage,
  Months,
  Quota,
  Registration,
  ScanDetail,
  ScanPage,
  Sessions,
  User,
  Version,
} from './shapes.ts';

/** What is at that path. */
export function asked<T>(queryKey: readonly string[], path: string, shape: Ask<T>['shape'], how = ask) {
  return queryOptions({ queryKey, queryFn: ({ signal }) => how({ path, shape, signal }) });
}

/** Numbers that others change as well are asked for again; not in a hidden tab, which TanStack Query knows. */
const LIVE_MS = 15_000;

export const meQuery = asked(['me'], '/web/users/me', User);

export const registrationQuery = queryOptions({
  ...asked(['registration'], '/web/auth/registration', Registration, askOpenly),
  staleTime: Number.POSITIVE_INFINITY,
});

export const quotaQuery = queryOptions({ ...asked(['quota'], '/web/quota', Quota), refetchInterval: LIVE_MS });

export const versionQuery = queryOptions({
  ...asked(['version'], '/version', Version, askOpenly),
  refetchInterval: 60_000,
});

/** Days as `YYYY-MM-DD`, both included. */
export function donutQuery(startDate: string, endDate: string) {
  const query = new URLSearchParams({ startDate, endDate });
  return asked(['stats', 'donut', startDate, endDate], `/web/scans/stats/donuts?${query}`, Counts);
}

export const hoursQuery = queryOptions({
  ...asked(['quota', 'hours'], '/web/quota/hours', Hours),
  refetchInterval: LIVE_MS,
});

/** The last 30 days. */
export const daysQuery = queryOptions({
  ...asked(['stats', 'daily'], '/web/scans/stats/daily', Days),
  refetchInterval: LIVE_MS,
});

export const monthlyQuery = asked(['stats', 'monthly'], '/web/scans/stats/monthly', Months);

/** `search`: the parameters of the service. */
export function scansQuery(search: string) {
  return asked(['stats', 'scans', search], `/web/scans/stats?${search}`, ScanPage);
}

/** The newest, as the overview shows them. */
export const LATEST = 10;
export const latestQuery = queryOptions({ ...scansQuery(`size=${LATEST}`), refetchInterval: LIVE_MS });

export function scanQuery(id: string) {
  return queryOptions({
    ...asked(['scan', id], `/web/scans/${encodeURIComponent(id)}`, ScanDetail),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export const keysQuery = asked(['keys'], '/web/keys/me', Keys);

/** Of the last 30 days. */
export function keyUsageQuery(uuid: string) {
  return asked(['keys', 'usage', uuid], `/web/keys/${uuid}/usage?days=30`, KeyUsage);
}

/** How often prices that Stripe has not said yet are asked for again: at first in ms, and later, when it seems to be away. */
const PRICES_SOON_MS = 2_000;
const PRICES_LATER_MS = 30_000;
const PRICES_SOON_TIMES = 5;

export const billingQuery = queryOptions({
  ...asked(['billing'], '/web/billing/me', Billing),
  refetchInterval({ state: { data, dataUpdateCount } }) {
    if (data?.plans.some(({ pricePending }) => pricePending === true) !== true) return false;
    return dataUpdateCount < PRICES_SOON_TIMES ? PRICES_SOON_MS : PRICES_LATER_MS;
  },
});

export const sessionsQuery = asked(['sessions'], '/web/users/me/sessions', Sessions);
