// With what contents are looked at, and how old its signatures are: a notice where that is weaker than it should be.
import { Alert } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { meQuery, versionQuery } from '../api/queries.ts';
import { Awaited } from '../parts/awaited.tsx';
import { noticeOf } from '../parts/engine-notice.tsx';
import { number } from '../parts/format.ts';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { texts } from '../texts.ts';

const t = texts.overview;

export function EnginePanel() {
  const version = useQuery(versionQuery);
  const me = useQuery(meQuery);
  if (version.isPending || version.isError) return <Awaited query={version} skeleton={<LinesSkeleton lines={3} />} />;
  const { engine, signatures, standsIn } = version.data;
  // Operators have it above every page.
  const notice = me.data?.role === 'user' ? noticeOf(version.data) : null;
  return (
    <div className="stack">
      {notice !== null && (
        <Alert color="yellow" role="status">
          {notice} {engine !== null && standsIn !== true && t.askOperator}
        </Alert>
      )}
      {engine !== null && signatures !== null && (
        <dl className="facts">
          <dt>{t.engine}</dt>
          <dd className="name">{engine.split(';', 1)[0]}</dd>
          <dt>{t.signatures}</dt>
          <dd>{number(signatures.count)}</dd>
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
