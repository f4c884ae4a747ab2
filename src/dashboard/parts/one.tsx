// The page of one thing: it comes, is there, isn't there any more, or could not be asked for.
import type { ReactNode } from 'react';
import { Problem } from '../api/problem.ts';
import { Awaited } from './awaited.tsx';
import { Blank } from './blank.tsx';
import { PageSkeleton } from './skeletons.tsx';
import { PageTitle } from './title.tsx';

interface OneProps<T> {
  readonly query: {
    readonly data: T | undefined;
    readonly isPending: boolean;
    readonly error: unknown;
    readonly refetch: () => Promise<unknown>;
  };
  readonly texts: { readonly one: string; readonly gone: string; readonly goneHint: string };
  /** What can be done where it is gone. */
  readonly instead?: ReactNode;
  readonly children: (found: T) => ReactNode;
}

const GONE = 404;

export function One<T>({ query, texts, instead, children }: OneProps<T>) {
  const { data, error } = query;
  if (error instanceof Problem && error.status === GONE) {
    return (
      <>
        <PageTitle title={texts.gone} />
        <section className="panel">
          <Blank hint={texts.goneHint}>{instead}</Blank>
        </section>
      </>
    );
  }
  if (data !== undefined) return children(data);
  return (
    <>
      <PageTitle title={texts.one} />
      <Awaited query={query} skeleton={<PageSkeleton />} />
    </>
  );
}
