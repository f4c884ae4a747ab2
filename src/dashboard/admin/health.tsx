// How the service is now: its signatures first, then threads, memory, stores and the process itself.
import { Alert, Badge, Button, Progress } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ask } from '../api/client.ts';
import { Nothing } from '../api/shapes.ts';
import { Awaited } from '../parts/awaited.tsx';
import { duration, number, size } from '../parts/format.ts';
import { showDone, showProblem } from '../parts/notices.tsx';
import { PageSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { type Health, healthQuery, Update } from './api.ts';
import { Nodes } from './health-nodes.tsx';
import { texts } from './texts.ts';

const t = texts.health;

export function HealthPage() {
  const health = useQuery(healthQuery);
  return (
    <>
      <PageTitle title={texts.pages.health} lead={t.lead} />
      <Awaited query={health} skeleton={<PageSkeleton />} />
      {health.data !== undefined && (
        <div className="admin-grid">
          <Signatures health={health.data} />
          <Threads {...health.data.threads} />
          <Memory {...health.data.memory} />
          <Stores {...health.data} />
          <Process {...health.data} />
          <Nodes nodes={health.data.nodes} />
          {health.data.refused.length > 0 && <Refused digests={health.data.refused} />}
        </div>
      )}
    </>
  );
}

function Panel({
  title,
  children,
  badge,
}: {
  readonly title: string;
  readonly children: ReactNode;
  readonly badge?: ReactNode;
}) {
  return (
    <section className="panel" aria-label={title}>
      <div className="row row-apart admin-panel-head">
        <h2 className="panel-title">{title}</h2>
        {badge}
      </div>
      {children}
    </section>
  );
}

/** Null: nothing is wrong. */
function State({ problem, well = t.answers }: { readonly problem: string | null; readonly well?: string }) {
  return <Badge color={problem === null ? 'teal' : 'red'}>{problem ?? well}</Badge>;
}

function Facts({ rows }: { readonly rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="admin-facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const colours = { starter: 'red', current: 'teal', old: 'yellow', other: 'gray' } as const;

function Signatures({ health: { engine, update } }: { readonly health: Health }) {
  const { standing } = engine;
  const badge =
    standing === null ? (
      <Badge color="yellow">{t.states[engine.state]}</Badge>
    ) : (
      <Badge color={colours[standing]}>{t.standing[standing]}</Badge>
    );
  return (
    <Panel title={t.signatures} badge={badge}>
      <p className="admin-number">{number(engine.signatures)}</p>
      <Facts
        rows={[
          // What is behind the first word says the same as the number and the time.
          [t.engine, engine.description?.split(';')[0] ?? '–'],
          [t.built, engine.builtAt === null ? '–' : <Time key="built" at={engine.builtAt} />],
        ]}
      />
      {engine.problem !== null && <Alert color="red">{engine.problem}</Alert>}
      {engine.progress !== null && (
        <div className="admin-progress">
          <span className="small">{t.loading(Math.round(engine.progress * 100))}</span>
          <Progress value={engine.progress * 100} aria-label={t.loading(Math.round(engine.progress * 100))} />
        </div>
      )}
      {standing === 'starter' && <p className="small dimmed">{t.starterHint}</p>}
      <UpdateButton update={update} />
    </Panel>
  );
}

function UpdateButton({ update: { state, lines } }: { readonly update: Health['update'] }) {
  const client = useQueryClient();
  const start = useMutation({
    mutationFn: () => ask({ method: 'POST', path: '/web/admin/signatures/update', shape: Update }),
    onError: showProblem,
    onSettled: () => client.invalidateQueries({ queryKey: healthQuery.queryKey }),
  });
  return (
    <div className="admin-update">
      <Button
        variant="default"
        size="compact-sm"
        loading={start.isPending || state === 'running'}
        onClick={() => start.mutate()}
      >
        {t.update}
      </Button>
      <span className="small" role="status" data-state={state}>
        {t.updateStates[state]}
      </span>
      {lines.length > 0 && (
        <details className="small" open={state === 'failed'}>
          <summary>{t.updateOutput}</summary>
          <pre className="admin-output">{lines.join('\n')}</pre>
        </details>
      )}
    </div>
  );
}

function Threads({ threads, running, standIns, waiting, accountsWaiting, late, hung }: Health['threads']) {
  return (
    <Panel title={t.threads}>
      <p className="admin-number">{t.busy(running, threads)}</p>
      <Progress value={(100 * running) / Math.max(1, threads)} aria-label={t.busy(running, threads)} />
      <Facts
        rows={[
          [t.waiting, waiting === 0 ? '0' : `${number(waiting)} ${t.waitingOf(accountsWaiting)}`],
          [t.standIns, number(standIns)],
          [t.late, number(late)],
          [t.hung, number(hung)],
        ]}
      />
    </Panel>
  );
}

function Memory({ residentBytes, limitBytes, heapBytes, uploads, downloads, verdictCacheBytes }: Health['memory']) {
  const lent = ({ lentBytes, budgetBytes, accounts, largestAccountBytes }: typeof uploads): string =>
    `${size(lentBytes)} ${t.ofLimit(size(budgetBytes))}${accounts === 0 ? '' : ` · ${t.largest(size(largestAccountBytes), accounts)}`}`;
  return (
    <Panel title={t.memory}>
      <p className="admin-number">{size(residentBytes)}</p>
      <p className="small dimmed">
        {t.resident} {limitBytes === null ? '' : t.ofLimit(size(limitBytes))}
      </p>
      <Facts
        rows={[
          [t.uploads, lent(uploads)],
          [t.downloads, lent(downloads)],
          [t.cache, size(verdictCacheBytes)],
          [t.heap, size(heapBytes)],
        ]}
      />
    </Panel>
  );
}

function Stores({ stores, journal }: Health) {
  return (
    <Panel title={t.stores}>
      <Facts
        rows={[
          [
            `${t.database}${stores.isEmbedded ? `, ${t.embedded}` : ''}`,
            <State key="database" problem={stores.database} />,
          ],
          [
            `${t.admission} ${stores.hasRedis ? t.inRedis : t.inProcess}`,
            <State key="admission" problem={stores.admission} />,
          ],
          [t.journal, <State key="journal" problem={journal.problem} well={t.takes} />],
          [t.rows, `${number(journal.rows)} · ${size(journal.bytes)}`],
          [t.oldest, t.seconds(number(Math.round(journal.oldestSeconds)))],
          [t.damaged, number(journal.damagedFiles)],
        ]}
      />
    </Panel>
  );
}

function Process({ process, suspects }: Health) {
  return (
    <Panel title={t.process}>
      <Facts
        rows={[
          [t.version, `${process.version} · Node ${process.node}`],
          [t.host, `${process.host} · ${process.pid}`],
          [t.processes, number(process.processes)],
          [t.uptime, duration(process.uptimeSeconds)],
          [t.suspects, number(suspects)],
        ]}
      />
    </Panel>
  );
}

function Refused({ digests }: { readonly digests: readonly string[] }) {
  const client = useQueryClient();
  const allow = useMutation({
    mutationFn: (sha256: string) => ask({ method: 'DELETE', path: `/web/admin/refused/${sha256}`, shape: Nothing }),
    onSuccess: () => showDone(t.allowed),
    onError: showProblem,
    onSettled: () => client.invalidateQueries({ queryKey: healthQuery.queryKey }),
  });
  return (
    <Panel title={t.refused}>
      <p className="small dimmed">{t.refusedHint}</p>
      <ul className="admin-list">
        {digests.map((sha256) => (
          <li key={sha256}>
            <span className="code">{sha256}</span>
            <Button
              size="compact-sm"
              variant="default"
              aria-label={t.allowOf(sha256)}
              onClick={() => allow.mutate(sha256)}
            >
              {t.allow}
            </Button>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
