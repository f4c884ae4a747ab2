// Whether somebody is signed in, for what is shown by it: changes when this or another tab signs in or out.
import { useSyncExternalStore } from 'react';
import { isSignedIn, watchSession } from '../api/session.ts';

export function useSignedIn(): boolean {
  return useSyncExternalStore(watchSession, isSignedIn);
}
