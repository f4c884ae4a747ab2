// What stands where something comes: of its size, so that nothing jumps.
import { Skeleton } from '@mantine/core';
import { texts } from '../texts.ts';

export function PageSkeleton() {
  return (
    <div className="stack" role="status" aria-label={texts.common.loading}>
      <Skeleton height={32} width="12rem" />
      <Skeleton height={180} />
      <Skeleton height={180} />
    </div>
  );
}

export function LinesSkeleton({ lines, height = 22 }: { readonly lines: number; readonly height?: number }) {
  return (
    <div className="stack" role="status" aria-label={texts.common.loading}>
      {Array.from({ length: lines }, (_, line) => line).map((line) => (
        <Skeleton key={line} height={height} />
      ))}
    </div>
  );
}
