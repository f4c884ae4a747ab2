// A page of one thing that could not be had: it isn't there any more, or could not be asked for.
import type { ReactNode } from 'react';
import { Problem } from '../api/problem.ts';
import { Blank } from './blank.tsx';
import { ProblemBox } from './problem.tsx';
import { PageTitle } from './title.tsx';

interface MissingProps {
  readonly error: unknown;
  readonly retry: () => void;
  readonly texts: { readonly gone: string; readonly goneHint: string };
  /** What can be done instead. */
  readonly children?: ReactNode;
}

const GONE = 404;

export function Missing({ error, retry, texts, children }: MissingProps) {
  if (!(error instanceof Problem && error.status === GONE)) return <ProblemBox error={error} onRetry={retry} />;
  return (
    <>
      <PageTitle title={texts.gone} />
      <section className="panel">
        <Blank hint={texts.goneHint}>{children}</Blank>
      </section>
    </>
  );
}
