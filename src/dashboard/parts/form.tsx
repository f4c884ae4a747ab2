// A form of any page: what is wrong with a field has the focus once the form was sent, so that a screen reader reads it.
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react';

/** As TanStack Query has a mutation. */
export interface Sending {
  /** What the service said against it; null: nothing. */
  readonly error: unknown;
  readonly isPending: boolean;
}

interface FormProps {
  readonly onSubmit: () => void;
  /** Absent: nothing is asked of the service. */
  readonly sends?: Sending;
  readonly className?: string;
  readonly children: ReactNode;
}

export function Form({ onSubmit, sends, className = 'stack', children }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  const [tries, setTries] = useState(0);
  const error = sends?.error ?? null;
  useEffect(() => {
    if (tries === 0 && error === null) return;
    form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [tries, error]);
  function submit(event: FormEvent): void {
    event.preventDefault();
    onSubmit();
    setTries(tries + 1);
  }
  return (
    <form ref={form} onSubmit={submit} noValidate className={className}>
      {children}
    </form>
  );
}
