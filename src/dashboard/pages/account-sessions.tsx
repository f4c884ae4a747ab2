// Where the account is signed in: this device marked, each of the others to be ended.
import { Badge, Button } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { end } from '../api/client.ts';
import { sessionsQuery } from '../api/queries.ts';
import type { Session } from '../api/shapes.ts';
import { Awaited } from '../parts/awaited.tsx';
import { deviceOf } from '../parts/device.ts';
import { showDone, showProblem } from '../parts/notices.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';

const t = texts.account;

export function SessionsPanel() {
  const sessions = useQuery(sessionsQuery);
  const end = useEnd();
  const others = sessions.data?.filter(({ current }) => !current) ?? [];
  return (
    <>
      <div className="row row-apart">
        <h2 className="panel-title">{t.sessions}</h2>
        {others.length > 0 && (
          <Button size="compact-sm" color="red" variant="light" onClick={() => end.mutate(null)}>
            {t.endOthers}
          </Button>
        )}
      </div>
      <p className="page-lead small">{t.sessionsLead}</p>
      <Awaited query={sessions} skeleton={<LinesSkeleton lines={3} height={40} />} />
      <ul className="sessions">
        {sessions.data?.map((session) => (
          <SessionRow key={session.id} session={session} end={() => end.mutate(session.id)} />
        ))}
      </ul>
      {sessions.data !== undefined && others.length === 0 && <p className="dimmed small">{t.noOthers}</p>}
    </>
  );
}

/** Null: all but this one. */
function useEnd() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string | null) => end(`/web/users/me/sessions${id === null ? '?keepCurrent=true' : `/${id}`}`),
    onSuccess: (_, id) => showDone(id === null ? t.othersEnded : t.ended),
    onError: showProblem,
    onSettled: () => client.invalidateQueries({ queryKey: sessionsQuery.queryKey }),
  });
}

function SessionRow({ session, end }: { readonly session: Session; readonly end: () => void }) {
  const { userAgent, ipAddress, creationDate, lastUse, current } = session;
  const device = deviceOf(userAgent);
  return (
    <li>
      <div>
        <div className="row">
          <strong className="name" title={visibleName(userAgent)}>
            {device}
          </strong>
          {current && <Badge>{t.thisDevice}</Badge>}
        </div>
        <div className="dimmed small">
          <span className="name">{ipAddress}</span> · {t.signedInAt} <Time at={creationDate} /> · {t.lastUse}{' '}
          <Time at={lastUse} />
        </div>
      </div>
      {!current && (
        <Button size="compact-sm" variant="default" onClick={end} aria-label={t.endOf(device, ipAddress)}>
          {t.end}
        </Button>
      )}
    </li>
  );
}
