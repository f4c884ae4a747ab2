// What came of a scan, as a word and a colour: the word alone says it as well.
import { Badge } from '@mantine/core';
import type { Scan } from '../api/shapes.ts';
import { texts } from '../texts.ts';
import { CleanIcon, IncompleteIcon, InfectedIcon, LeftIcon, RefusedIcon } from './icons.ts';
import { noticeText } from './notice.ts';
import { visibleName } from './visible-name.ts';

type Kind = keyof typeof texts.verdict;

const looks: Readonly<Record<Kind, readonly [color: string, icon: typeof CleanIcon]>> = {
  clean: ['teal', CleanIcon],
  infected: ['red', InfectedIcon],
  incomplete: ['yellow', IncompleteIcon],
  refused: ['gray', RefusedIcon],
  left: ['gray', LeftIcon],
  failed: ['yellow', IncompleteIcon],
};

function kindOf({ status, infected }: Pick<Scan, 'status' | 'infected'>): Kind {
  if (status === '200') return infected ? 'infected' : 'clean';
  if (status === '422') return 'incomplete';
  if (status === '499') return 'left';
  return status.startsWith('4') ? 'refused' : 'failed';
}

export function Verdict({ scan }: { readonly scan: Pick<Scan, 'status' | 'infected'> }) {
  return <VerdictBadge kind={kindOf(scan)} />;
}

/** What was found, or why there is no verdict; what else was said of it. */
export function Finding({ scan: { virusName, error, notices } }: { readonly scan: Scan }) {
  const found = virusName ?? error?.replace(/^Scan incomplete: /, '') ?? null;
  return (
    <>
      {found !== null && (
        <span className={virusName === null ? 'small name cut dimmed' : 'small name cut'} title={visibleName(found)}>
          {visibleName(found)}
        </span>
      )}
      {notices.length > 0 && (
        <span className="dimmed small" title={notices.map(noticeText).join(' ')}>
          {notices.join(', ')}
        </span>
      )}
    </>
  );
}

export function VerdictBadge({ kind }: { readonly kind: Kind }) {
  const [color, Icon] = looks[kind];
  return (
    <Badge color={color} leftSection={<Icon size={14} />}>
      {texts.verdict[kind]}
    </Badge>
  );
}
