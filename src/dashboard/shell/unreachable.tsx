// One line for the whole page while the server can't be reached. What failed meanwhile is asked again as soon as it answers.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useSyncExternalStore } from 'react';
import { isUnreachable, watchReachability } from '../api/reachability.ts';
import { queue } from '../scan/queue.ts';
import { texts } from '../texts.ts';

export function Unreachable() {
  const isLost = useSyncExternalStore(watchReachability, isUnreachable);
  const client = useQueryClient();
  useEffect(
    () =>
      watchReachability(() => {
        if (isUnreachable()) return;
        queue.resumeOffline();
        void client.refetchQueries({ predicate: ({ state }) => state.status === 'error' });
      }),
    [client],
  );
  return (
    <div role="status" className={isLost ? 'unreachable' : 'unseen'}>
      {isLost ? texts.problems.unreachable : ''}
    </div>
  );
}
