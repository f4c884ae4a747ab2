// What came of a scan, as a word and a colour: the word alone says it as well.
import { Badge } from '@mantine/core';
import type { Scan } from '../api/shapes.ts';
import { texts } from '../texts.ts';

type Kind = keyof typeof texts.verdict;

const colors: Readonly<Record<Kind, string>> = {
  clean: 'teal',
  infected: 'red',
  incomplete: 'yellow',
  refused: 'gray',
  left: 'gray',
  failed: 'yellow',
};

function kindOf({ status, infected }: Pick<Scan, 'status' | 'infected'>): Kind {
  if (status === '200') return infected ? 'infected' : 'clean';
  if (status === '422') return 'incomplete';
  if (status === '499') return 'left';
  return status.startsWith('4') ? 'refused' : 'failed';
}

export function Verdict({ scan }: { readonly scan: Pick<Scan, 'status' | 'infected'> }) {
  const kind = kindOf(scan);
  return (
    <Badge color={colors[kind]} variant="light" size="md" tt="none">
      {texts.verdict[kind]}
    </Badge>
  );
}
