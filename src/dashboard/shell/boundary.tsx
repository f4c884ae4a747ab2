// What is shown when a page has a bug, or a part of it could not be loaded: the rest of the shell stays.
import { Button } from '@mantine/core';
import { Component, type ReactNode } from 'react';
import { Blank } from '../parts/blank.tsx';
import { PageTitle } from '../parts/title.tsx';
import { texts } from '../texts.ts';

interface Props {
  /** What broke at one address may be whole at another. */
  readonly location: string;
  readonly children: ReactNode;
}

interface State {
  readonly broken: 'bug' | 'missing' | null;
}

/** Browsers have no name for a script that could not be fetched: Chromium, Firefox, Safari and Vite each say it in words of their own. */
function isMissingPart(error: unknown): boolean {
  return error instanceof Error && /dynamically imported module|importing a module|preload css/i.test(error.message);
}

/** React knows boundaries as classes alone. */
export class Boundary extends Component<Props, State> {
  override state: State = { broken: null };

  static getDerivedStateFromError(error: unknown): State {
    return { broken: isMissingPart(error) ? 'missing' : 'bug' };
  }

  override componentDidUpdate({ location }: Props): void {
    if (location !== this.props.location) this.setState({ broken: null });
  }

  override render(): ReactNode {
    const { broken } = this.state;
    if (broken === null) return this.props.children;
    const { title, hint } = texts.problems.broken[broken];
    return (
      <>
        <PageTitle title={title} />
        <Blank hint={hint}>
          <Button onClick={() => window.location.reload()}>{texts.problems.reload}</Button>
        </Blank>
      </>
    );
  }
}
