// What is said where contents are looked at with less than there should be; to operators above every page, until they have mended it.
import { Alert, Anchor } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import { meQuery, versionQuery } from '../api/queries.ts';
import type { Version } from '../api/shapes.ts';
import { texts } from '../texts.ts';

const t = texts.overview;
/** The daily database is made every day, and its age is that of its making: from a day on a newer one is there. */
const OLD_HOURS = 24;
/** Here it is mended: the page says how it stands itself. */
const HEALTH = '/admin';

/** Null: nothing is to be said. */
export function noticeOf({ engine, signatures, standsIn }: Version): string | null {
  if (engine === null || signatures === null) return t.engineNone;
  if (standsIn === true) return t.engineStandsIn;
  if (signatures.dailyAgeHours === null) return t.signaturesNoDaily;
  return signatures.dailyAgeHours > OLD_HOURS ? t.signaturesOld(Math.floor(signatures.dailyAgeHours / 24)) : null;
}

export function OperatorNotice() {
  const me = useQuery(meQuery);
  const isOperator = me.data?.role === 'operator';
  const version = useQuery({ ...versionQuery, enabled: isOperator });
  const [location] = useLocation();
  if (!isOperator || version.data === undefined || location === HEALTH) return null;
  const notice = noticeOf(version.data);
  if (notice === null) return null;
  return (
    <Alert color="yellow" role="status" className="operator-notice">
      {notice}{' '}
      <Anchor component={Link} href={HEALTH}>
        {t.toHealth}
      </Anchor>
    </Alert>
  );
}
