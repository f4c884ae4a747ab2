// The return from a checkout: Stripe is asked once what came of it, and the answer is said.
import { Alert, Button, Loader } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { ask } from '../api/client.ts';
import { Problem, SessionEnded } from '../api/problem.ts';
import { billingQuery } from '../api/queries.ts';
import { Billing } from '../api/shapes.ts';
import { number } from '../parts/format.ts';
import { texts } from '../texts.ts';

const t = texts.billing;

export function CheckoutReturn({ id }: { readonly id: string }) {
  const client = useQueryClient();
  const sync = useQuery({
    queryKey: ['checkout', id],
    async queryFn() {
      const billing = await ask({
        method: 'POST',
        path: '/web/billing/sync',
        body: { checkoutSessionId: id },
        shape: Billing,
        isHarmless: true,
      });
      client.setQueryData(billingQuery.queryKey, billing);
      void client.invalidateQueries({ queryKey: ['quota'] });
      return billing;
    },
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  if (sync.isPending) {
    return (
      <Alert color="blue" role="status" icon={<Loader size="xs" />}>
        {t.returned}
      </Alert>
    );
  }
  if (sync.isError) return <Failed error={sync.error} retry={() => void sync.refetch()} />;
  const { status, plan, hourlyLimit } = sync.data;
  const isPaid = status === 'active' || status === 'trialing';
  return (
    <Alert color={isPaid ? 'teal' : 'yellow'} role="status">
      {isPaid ? t.paid(plan, hourlyLimit, number(hourlyLimit)) : t.unpaid}
    </Alert>
  );
}

function Failed({ error, retry }: { readonly error: unknown; readonly retry: () => void }) {
  if (error instanceof SessionEnded) return null;
  const status = error instanceof Problem ? error.status : 0;
  const isFinal = [400, 403, 404].includes(status);
  return (
    <Alert color={isFinal ? 'red' : 'yellow'} role="alert">
      <div className="stack">
        {status === 403 ? t.notYours : isFinal ? t.unknownCheckout : t.syncFailed}
        {!isFinal && (
          <div>
            <Button size="compact-sm" variant="default" onClick={retry}>
              {texts.common.retry}
            </Button>
          </div>
        )}
      </div>
    </Alert>
  );
}
