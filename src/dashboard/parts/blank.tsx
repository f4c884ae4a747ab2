// What stands where nothing is: why, and what to do about it.
import type { ReactNode } from 'react';

interface BlankProps {
  /** Left out where the page is titled so. */
  readonly title?: string;
  readonly hint: string;
  readonly children?: ReactNode;
}

export function Blank({ title, hint, children }: BlankProps) {
  return (
    <div className="blank">
      {title !== undefined && <p className="blank-title">{title}</p>}
      <p className="page-lead">{hint}</p>
      {children}
    </div>
  );
}
