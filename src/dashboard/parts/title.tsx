// The heading of a page, which is the title of the document as well.
import { type ReactNode, useEffect } from 'react';
import { texts } from '../texts.ts';

interface TitleProps {
  readonly title: string;
  readonly lead?: string;
  readonly children?: ReactNode;
}

export function PageTitle({ title, lead, children }: TitleProps) {
  useEffect(() => {
    document.title = `${title} · ${texts.product}`;
  }, [title]);
  return (
    <div className="page-head">
      <div>
        <h1 className="page-title">{title}</h1>
        {lead !== undefined && <p className="page-lead">{lead}</p>}
      </div>
      {children !== undefined && <div className="row">{children}</div>}
    </div>
  );
}
