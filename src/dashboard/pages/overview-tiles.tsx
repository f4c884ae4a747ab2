// The numbers of the last 30 days, and of the hour, at a glance.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { donutQuery, scansQuery } from '../api/queries.ts';
import { number, utcDay } from '../parts/format.ts';
import { IncompleteIcon, InfectedIcon, QuotaIcon, ScanIcon } from '../parts/icons.ts';
import { texts } from '../texts.ts';
import { QuotaPanel } from './overview-quota.tsx';

const t = texts.overview;
const DAYS = 30;
const ICON = 18;

export function Tiles() {
  const now = Date.now();
  const [from, to] = [utcDay(DAYS - 1, now), utcDay(0, now)];
  const counts = useQuery(donutQuery(from, to));
  const incomplete = useQuery(scansQuery(`size=1&status=422&startDate=${from}&endDate=${to}`));
  const { infected, clean } = counts.data ?? {};
  return (
    <div className="tiles">
      <Tile icon={<ScanIcon size={ICON} aria-hidden="true" />} label={t.tiles.scans} note={t.ranges[DAYS]}>
        {infected === undefined || clean === undefined ? null : infected + clean}
      </Tile>
      <Tile icon={<InfectedIcon size={ICON} aria-hidden="true" />} label={t.infected} note={t.ranges[DAYS]}>
        {infected ?? null}
      </Tile>
      <Tile icon={<IncompleteIcon size={ICON} aria-hidden="true" />} label={t.tiles.incomplete} note={t.ranges[DAYS]}>
        {incomplete.data?.totalElements ?? null}
      </Tile>
      <section className="panel tile" aria-label={t.quota}>
        <span className="tile-label">
          <QuotaIcon size={ICON} aria-hidden="true" />
          {t.quota}
        </span>
        <QuotaPanel />
      </section>
    </div>
  );
}

interface TileProps {
  readonly icon: ReactNode;
  readonly label: string;
  readonly note: string;
  /** Null: not known (yet). */
  readonly children: number | null;
}

function Tile({ icon, label, note, children }: TileProps) {
  return (
    <section className="panel tile" aria-label={label}>
      <span className="tile-label">
        {icon}
        {label}
      </span>
      <span className="tile-number">{children === null ? '–' : number(children)}</span>
      <span className="dimmed small">{note}</span>
    </section>
  );
}
