// What a webhook has sent, what waits, and what has failed, which can be sent again.
import { Badge, Button, SegmentedControl } from '@mantine/core';
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { ask } from '../api/client.ts';
import { Nothing } from '../api/shapes.ts';
import { type Delivery, deliveriesQuery, deliveryStates, PATH } from '../api/webhooks.ts';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { Columns } from '../parts/columns.tsx';
import { number } from '../parts/format.ts';
import { showDone, showProblem } from '../parts/notices.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts as t } from './webhook-texts.ts';

const filters = ['all', 'failed', 'waiting', 'delivered'] as const;

export function Deliveries({ id }: { readonly id: string }) {
  const [filter, setFilter] = useState<(typeof filters)[number]>('all');
  const state = deliveryStates.find((one) => one === filter) ?? null;
  const found = useInfiniteQuery(deliveriesQuery(id, state));
  const deliveries = found.data?.pages.flatMap(({ content }) => content) ?? [];
  return (
    <section className="panel" aria-label={t.deliveries}>
      <div className="row row-apart">
        <h2 className="panel-title">{t.deliveries}</h2>
        <SegmentedControl
          aria-label={t.filter}
          value={filter}
          onChange={(value) => setFilter(filters.find((one) => one === value) ?? 'all')}
          data={filters.map((value) => ({ value, label: t.filters[value] }))}
        />
      </div>
      <Awaited query={found} skeleton={<LinesSkeleton lines={6} height={30} />} />
      {found.isSuccess && deliveries.length === 0 && <Blank title={t.noDeliveries} hint={t.noDeliveriesHint} />}
      {deliveries.length > 0 && <Table id={id} deliveries={deliveries} />}
      {found.hasNextPage && (
        <Button
          variant="default"
          size="compact-sm"
          loading={found.isFetchingNextPage}
          onClick={() => void found.fetchNextPage()}
        >
          {t.older}
        </Button>
      )}
      <p className="page-lead small">{t.deliveriesHint}</p>
    </section>
  );
}

function Table({ id, deliveries }: { readonly id: string; readonly deliveries: readonly Delivery[] }) {
  const client = useQueryClient();
  const again = useMutation({
    mutationFn: (delivery: string) =>
      ask({ method: 'POST', path: `${PATH}/${id}/deliveries/${delivery}/retry`, shape: Nothing }),
    onSuccess: () => showDone(t.sentAgain),
    onError: showProblem,
    onSettled: () => client.invalidateQueries({ queryKey: ['webhooks', id] }),
  });
  const { actions, attempts, ...columns } = t.deliveryColumns;
  return (
    <table className="table">
      <caption className="unseen">{t.deliveries}</caption>
      <thead>
        <tr>
          <Columns names={columns} />
          <th scope="col" className="table-number">
            {attempts}
          </th>
          <th scope="col">
            <span className="unseen">{actions}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {deliveries.map((delivery) => (
          <Row key={delivery.id} delivery={delivery} again={() => again.mutate(delivery.id)} />
        ))}
      </tbody>
    </table>
  );
}

const colours = { waiting: 'yellow', delivered: 'teal', failed: 'red' } as const;

function Row({ delivery, again }: { readonly delivery: Delivery; readonly again: () => void }) {
  const { event, scanId, state, status, error, attempts, nextAttempt, lastUpdate } = delivery;
  return (
    <tr>
      <td>
        <Link href={`/scans/${scanId}`} className="table-open">
          {t.eventNames[event]}
        </Link>
      </td>
      <td data-label={t.deliveryColumns.state}>
        <Badge color={colours[state]}>{t.deliveryStates[state]}</Badge>
      </td>
      <td className="name" data-label={t.deliveryColumns.answer}>
        {status === null ? visibleName(error ?? '') : t.answered(status)}
      </td>
      <td data-label={t.deliveryColumns.at}>
        <Time at={lastUpdate} />
        {nextAttempt !== null && attempts > 0 && (
          <span className="dimmed webhook-next">
            {t.next} <Time at={nextAttempt} as="clock" />
          </span>
        )}
      </td>
      <td className="table-number" data-label={t.deliveryColumns.attempts}>
        {number(attempts)}
      </td>
      <td className="table-action">
        {state === 'failed' && (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={t.againOf(t.eventNames[event], scanId)}
            onClick={again}
          >
            {t.again}
          </Button>
        )}
      </td>
    </tr>
  );
}
