// What stands where an answer will be. A problem stays until there is another answer: it doesn't come and go with each time that the service is asked again.
import { type ReactNode, useState } from 'react';
import { ProblemBox } from './problem.tsx';

interface AwaitedProps {
  readonly query: { readonly isPending: boolean; readonly error: unknown; readonly refetch: () => Promise<unknown> };
  readonly skeleton: ReactNode;
}

export function Awaited({ query: { isPending, error, refetch }, skeleton }: AwaitedProps) {
  const [last, setLast] = useState<unknown>(null);
  // TanStack Query forgets the error of what has no data when it is asked again.
  const shown = isPending ? last : error;
  if (shown !== last) setLast(shown);
  if (shown !== null) return <ProblemBox error={shown} onRetry={() => void refetch()} isBusy={isPending} />;
  return isPending ? skeleton : null;
}
