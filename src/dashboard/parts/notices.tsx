// Notices of what was done, and of what could not be: they go by themselves, and stay when the page changes.
import { Notifications, notifications } from '@mantine/notifications';
import '@mantine/notifications/styles.css';
import { SessionEnded } from '../api/problem.ts';
import { sentenceOf } from './problem.tsx';

export function Notices() {
  return <Notifications position="bottom-right" />;
}

export function showProblem(error: unknown): void {
  if (error instanceof SessionEnded) return;
  notifications.show({ color: 'red', message: sentenceOf(error), autoClose: 8_000, role: 'alert' });
}

export function showDone(message: string): void {
  notifications.show({ color: 'teal', message, role: 'status' });
}
