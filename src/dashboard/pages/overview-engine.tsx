// With what contents are looked at, and how old its signatures are: a notice where that is weaker than it should be.
import { Alert, Anchor } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { meQuery, versionQuery } from '../api/queries.ts';
import type { Version } from '../api/shapes.ts';
import { number } from '../parts/format.ts';
import { ProblemBox } from '../parts/problem.tsx';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { texts } from '../texts.ts';

const t = texts.overview;
/** The daily database is made every day, and its age is that of its making: from a day on a newer one is there. */
const OLD_HOURS = 24;

export function EnginePanel() {
  const version = useQuery(versionQuery);
  if (version.isPending) return <LinesSkeleton lines={3} />;
  if (version.isError) return <ProblemBox error={version.error} onRetry={() => void version.refetch()} />;
  const { engine, signatures, standsIn } = version.data;
  const notice = noticeOf(version.data);
  return (
    <div className="stack">
      {notice !== null && (
        <Alert color="yellow" role="status">
          {notice} {engine !== null && standsIn !== true && <Advice />}
        </Alert>
      )}
      {engine !== null && signatures !== null && (
        <dl className="facts">
          <dt>{t.engine}</dt>
          <dd className="name">{engine.split(';', 1)[0]}</dd>
          <dt>{t.signatures}</dt>
          <dd>{t.signatureCount(number(signatures.count))}</dd>
          {signatures.built !== null && (
            <>
              <dt>{t.signaturesBuilt}</dt>
              <dd>
                <Time at={signatures.built} />
              </dd>
            </>
          )}
        </dl>
      )}
    </div>
  );
}

/** Operators can do something about it. */
function Advice() {
  const me = useQuery(meQuery);
  if (me.data?.role !== 'operator') return t.askOperator;
  return (
    <Anchor component={Link} href="/admin">
      {t.toHealth}
    </Anchor>
  );
}

function noticeOf({ engine, signatures, standsIn }: Version): string | null {
  if (engine === null || signatures === null) return t.engineNone;
  if (standsIn === true) return t.engineStandsIn;
  if (signatures.dailyAgeHours === null) return t.signaturesNoDaily;
  return signatures.dailyAgeHours > OLD_HOURS ? t.signaturesOld(Math.floor(signatures.dailyAgeHours / 24)) : null;
}
