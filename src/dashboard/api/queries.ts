// What pages ask for, as queries with a name each, so that a change made by one page reaches the others.
import { queryOptions } from '@tanstack/react-query';
import { ask, askOpenly } from './client.ts';
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

/** Numbers that others change as well are asked for again; not in a hidden tab, which TanStack Query knows. */
const LIVE_MS = 15_000;

export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: ({ signal }) => ask({ path: '/web/users/me', shape: User, signal }),
});

export const registrationQuery = queryOptions({
  queryKey: ['registration'],
  queryFn: ({ signal }) => askOpenly({ path: '/web/auth/registration', shape: Registration, signal }),
  staleTime: Number.POSITIVE_INFINITY,
});

export const quotaQuery = queryOptions({
  queryKey: ['quota'],
  queryFn: ({ signal }) => ask({ path: '/web/quota', shape: Quota, signal }),
  refetchInterval: LIVE_MS,
});

export const versionQuery = queryOptions({
  queryKey: ['version'],
  queryFn: ({ signal }) => askOpenly({ path: '/version', shape: Version, signal }),
  refetchInterval: 60_000,
});

/** Days as `YYYY-MM-DD`, both included. */
export function donutQuery(startDate: string, endDate: string) {
  const query = new URLSearchParams({ startDate, endDate });
  return queryOptions({
    queryKey: ['stats', 'donut', startDate, endDate],
    queryFn: ({ signal }) => ask({ path: `/web/scans/stats/donuts?${query}`, shape: Counts, signal }),
  });
}

export const hoursQuery = queryOptions({
  queryKey: ['quota', 'hours'],
  queryFn: ({ signal }) => ask({ path: '/web/quota/hours', shape: Hours, signal }),
  refetchInterval: LIVE_MS,
});

/** The last 30 days. */
export const daysQuery = queryOptions({
  queryKey: ['stats', 'daily'],
  queryFn: ({ signal }) => ask({ path: '/web/scans/stats/daily', shape: Days, signal }),
  refetchInterval: LIVE_MS,
});

export const monthlyQuery = queryOptions({
  queryKey: ['stats', 'monthly'],
  queryFn: ({ signal }) => ask({ path: '/web/scans/stats/monthly', shape: Months, signal }),
});

/** `search`: the parameters of the service. */
export function scansQuery(search: string) {
  return queryOptions({
    queryKey: ['stats', 'scans', search],
    queryFn: ({ signal }) => ask({ path: `/web/scans/stats?${search}`, shape: ScanPage, signal }),
  });
}

/** The newest, as the overview shows them. */
export const LATEST = 10;
export const latestQuery = queryOptions({ ...scansQuery(`size=${LATEST}`), refetchInterval: LIVE_MS });

export function scanQuery(id: string) {
  return queryOptions({
    queryKey: ['scan', id],
    queryFn: ({ signal }) => ask({ path: `/web/scans/${encodeURIComponent(id)}`, shape: ScanDetail, signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: ({ signal }) => ask({ path: '/web/keys/me', shape: Keys, signal }),
});

/** Of the last 30 days. */
export function keyUsageQuery(uuid: string) {
  return queryOptions({
    queryKey: ['keys', 'usage', uuid],
    queryFn: ({ signal }) => ask({ path: `/web/keys/${uuid}/usage?days=30`, shape: KeyUsage, signal }),
  });
}

/** How often prices that Stripe has not said yet are asked for again: at first in ms, and later, when it seems to be away. */
const PRICES_SOON_MS = 2_000;
const PRICES_LATER_MS = 30_000;
const PRICES_SOON_TIMES = 5;

export const billingQuery = queryOptions({
  queryKey: ['billing'],
  queryFn: ({ signal }) => ask({ path: '/web/billing/me', shape: Billing, signal }),
  refetchInterval({ state: { data, dataUpdateCount } }) {
    if (data?.plans.some(({ pricePending }) => pricePending === true) !== true) return false;
    return dataUpdateCount < PRICES_SOON_TIMES ? PRICES_SOON_MS : PRICES_LATER_MS;
  },
});

export const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: ({ signal }) => ask({ path: '/web/users/me/sessions', shape: Sessions, signal }),
});
