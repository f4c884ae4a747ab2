// What went wrong, in plain words: in the place of what could not be loaded, and in forms that could not be sent.
import { Alert, Button } from '@mantine/core';
import { useSyncExternalStore } from 'react';
import { OutcomeUnknown, Problem, SessionEnded } from '../api/problem.ts';
import { isUnreachable, watchReachability } from '../api/reachability.ts';
import { texts } from '../texts.ts';
import { duration } from './format.ts';

export function sentenceOf(error: unknown): string {
  if (!(error instanceof Problem)) return texts.problems.broken.bug.hint;
  const { status, error: kind, message, retryAfterSeconds } = error;
  if (error instanceof OutcomeUnknown) return texts.problems.outcomeUnknown;
  if (status === 0) return texts.problems.noAnswer;
  if (status === 429)
    return texts.problems.tooMany(kind || texts.problems.tooManyRequests, duration(retryAfterSeconds ?? 60));
  if (status === 500 && message !== '') return texts.problems.unforeseen(message);
  if (message === '') return status === 503 ? texts.problems.unavailable : texts.problems.other(status);
  return withoutField(message);
}

/** The service names the field in front of what is wrong with it, which a form says by its place. */
function withoutField(message: string): string {
  const text = message.replace(/^[a-zA-Z]+: /, '');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What the service said against that field; null: nothing. */
export function errorAt(error: unknown, field: string): string | null {
  if (!(error instanceof Problem) || !error.message.startsWith(`${field}: `)) return null;
  return error.message === 'currentPassword: is wrong' ? texts.problems.wrongPassword : sentenceOf(error);
}

function isNoAnswer(error: unknown): boolean {
  return error instanceof Problem && error.status === 0 && !(error instanceof OutcomeUnknown);
}

interface FormProblemProps {
  readonly error: unknown;
  /** Where it is said already. */
  readonly fields?: readonly string[];
}

/** What is wrong with a form that was sent. That it was not done is said until it can be sent again. */
export function FormProblem({ error, fields = [] }: FormProblemProps) {
  const isAway = useSyncExternalStore(watchReachability, isUnreachable);
  if (error === null || error instanceof SessionEnded) return null;
  if (fields.some((field) => errorAt(error, field) !== null)) return null;
  if (!isNoAnswer(error)) {
    return (
      <Alert color={error instanceof OutcomeUnknown ? 'yellow' : 'red'} role="alert">
        <span className="name">{sentenceOf(error)}</span>
      </Alert>
    );
  }
  if (!isAway) return null;
  return (
    <p className="dimmed small" role="alert">
      {texts.problems.notDone}
    </p>
  );
}

interface ProblemBoxProps {
  readonly error: unknown;
  readonly onRetry?: () => void;
  /** It is asked for again. */
  readonly isBusy?: boolean;
}

export function ProblemBox({ error, onRetry, isBusy = false }: ProblemBoxProps) {
  // The way leads to the sign-in: there is nothing to say here.
  if (error instanceof SessionEnded) return null;
  // One line above the page says it for all of its parts, and they come back by themselves.
  if (isNoAnswer(error)) return <p className="dimmed small">{texts.problems.waiting}</p>;
  return (
    <Alert color="red" title={texts.problems.title} role="alert">
      <div className="stack">
        <span className="name">{sentenceOf(error)}</span>
        {onRetry !== undefined && (
          <div>
            <Button size="compact-sm" variant="default" loading={isBusy} onClick={onRetry}>
              {texts.common.retry}
            </Button>
          </div>
        )}
      </div>
    </Alert>
  );
}
