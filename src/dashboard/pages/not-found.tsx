// An address of the client that is no page.
import { Button } from '@mantine/core';
import { Link } from 'wouter';
import { Blank } from '../parts/blank.tsx';
import { PageTitle } from '../parts/title.tsx';
import { texts } from '../texts.ts';

export function NotFound() {
  return (
    <>
      <PageTitle title={texts.problems.notFound} />
      <Blank hint={texts.problems.notFoundHint}>
        <Button component={Link} href="/">
          {texts.problems.home}
        </Button>
      </Blank>
    </>
  );
}
