// Notices of what was done, and of what could not be: they go by themselves, and stay when the page changes.
import { Notifications, notifications } from '@mantine/notifications';
import '@mantine/notifications/styles.css';
import { OutcomeUnknown, SessionEnded } from '../api/problem.ts';
import { sentenceOf } from './problem.tsx';

export function Notices() {
  return <Notifications position="bottom-right" />;
}

export function showProblem(error: unknown): void {
  if (error instanceof SessionEnded) return;
  // Somebody has to look, and may be away for as long as it takes.
  const isUnknown = error instanceof OutcomeUnknown;
  notifications.show({
    color: isUnknown ? 'yellow' : 'red',
    message: sentenceOf(error),
    autoClose: isUnknown ? false : 8_000,
    role: 'alert',
  });
}

export function showNote(message: string): void {
  notifications.show({ color: 'yellow', message, role: 'status' });
}

export function showDone(message: string): void {
  notifications.show({ color: 'teal', message, role: 'status' });
}
