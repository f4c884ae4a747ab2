// What somebody does first with a new account, and what of it is done.
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { keysQuery, latestQuery, meQuery, versionQuery } from '../api/queries.ts';
import { DoneIcon, ToDoIcon } from '../parts/icons.ts';
import { texts } from '../texts.ts';

const t = texts.overview.steps;

export function FirstSteps() {
  const keys = useQuery(keysQuery);
  const scans = useQuery(latestQuery);
  const version = useQuery(versionQuery);
  const isOperator = useQuery(meQuery).data?.role === 'operator';
  const steps = [
    { ...t.key, href: '/keys', isDone: (keys.data?.length ?? 0) > 0 },
    { ...t.eicar, href: '/scan', isDone: (scans.data?.totalElements ?? 0) > 0 },
    {
      ...t.signatures,
      href: isOperator ? '/admin' : null,
      isDone: typeof version.data?.signatures?.dailyAgeHours === 'number',
    },
  ];
  return (
    <ol className="steps">
      {steps.map(({ title, hint, link, href, isDone }) => {
        const Icon = isDone ? DoneIcon : ToDoIcon;
        return (
          <li key={title} data-done={isDone}>
            <Icon size={20} />
            <div>
              <strong>{title}</strong> {isDone && <span className="unseen">{t.done}</span>}
              <p className="dimmed">{hint}</p>
              {href !== null && (
                <Button component={Link} href={href} variant="default" size="compact-sm">
                  {link}
                </Button>
              )}
            </div>
          </li>
        );
      })}
    </ol>
  );
}
