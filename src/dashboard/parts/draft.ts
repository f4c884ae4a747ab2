// What is typed into a form whose session ends: it is there again when the same person has signed in.
import { useEffect, useState } from 'react';
import { isSignedIn, signedInAs, watchSession } from '../api/session.ts';

export interface Draft<T> {
  /** Null: nothing was cut off. */
  kept: T | null;
}

const drafts = new Set<Draft<unknown>>();
/** Whose they are; null: nobody has been signed in yet. */
let owner = signedInAs();

watchSession(() => {
  const user = signedInAs();
  if (user === null) return;
  if (owner !== null && owner !== user) for (const draft of drafts) draft.kept = null;
  owner = user;
});

/** Of one form, in this tab; no secrets. */
export function newDraft<T>(): Draft<T> {
  const draft: Draft<T> = { kept: null };
  drafts.add(draft);
  return draft;
}

/** Of forms of the same kind, by the id of what each is about. */
export function newDrafts<T>(): (id: string) => Draft<T> {
  const known = new Map<string, Draft<T>>();
  return (id) => {
    const draft = known.get(id) ?? newDraft<T>();
    known.set(id, draft);
    return draft;
  };
}

/** Who closes the dialog, or leaves its page, wants no more of it. */
export function useDraft<T>(draft: Draft<T>, initial: T) {
  const [fields, setFields] = useState(draft.kept ?? initial);
  useEffect(
    () => () => {
      draft.kept = isSignedIn() ? null : fields;
    },
    [draft, fields],
  );
  return [fields, setFields] as const;
}
