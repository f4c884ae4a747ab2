// What is shown when a page has a bug: the rest of the shell stays.

import { Button } from '@mantine/core';
import { Component, type ReactNode } from 'react';
import { Blank } from '../parts/blank.tsx';
import { texts } from '../texts.ts';

interface State {
  readonly broken: boolean;
}

/** React knows boundaries as classes alone. */
export class Boundary extends Component<{ readonly children: ReactNode }, State> {
  override state: State = { broken: false };

  static getDerivedStateFromError(): State {
    return { broken: true };
  }

  override render(): ReactNode {
    if (!this.state.broken) return this.props.children;
    return (
      <Blank title={texts.problems.page} hint={texts.problems.pageHint}>
        <Button onClick={() => window.location.reload()}>{texts.problems.reload}</Button>
      </Blank>
    );
  }
}
