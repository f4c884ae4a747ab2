// Dialogs for what is shown once: what it is made of first, then its secret, which neither a click beside it nor Esc takes away.
import { Alert, Button, type ModalProps, TextInput } from '@mantine/core';
import type { UseMutationResult } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { texts } from '../texts.ts';
import { CopyButton } from './copy-button.tsx';
import { Dialog, Step } from './dialog.tsx';

interface MakingProps<T> {
  /** Of the dialog and of the button. */
  readonly title: string;
  readonly madeTitle: string;
  readonly make: UseMutationResult<T, Error, void>;
  readonly isComplete: boolean;
  /** `isTried`: what is missing is said. `error`: what the service said. */
  readonly fields: (state: { readonly isTried: boolean; readonly error: unknown }) => ReactNode;
  /** Those that say themselves what is wrong with them. */
  readonly fieldNames: readonly string[];
  readonly made: (made: T) => ReactNode;
  readonly madeSize?: ModalProps['size'];
  readonly close: () => void;
}

export function MakingDialog<T>(props: MakingProps<T>) {
  const { title, madeTitle, make, isComplete, fields, fieldNames, made, madeSize = 'md', close } = props;
  const [isTried, setTried] = useState(false);
  const { isSuccess: isMade } = make;
  return (
    <Dialog title={isMade ? madeTitle : title} close={close} size={isMade ? madeSize : 'md'} isKept={isMade}>
      {make.isSuccess ? (
        made(make.data)
      ) : (
        <Step
          sends={make}
          action={title}
          cancel={close}
          fields={fieldNames}
          onSubmit={() => {
            setTried(true);
            if (isComplete) make.mutate();
          }}
        >
          {fields({ isTried, error: make.error })}
        </Step>
      )}
    </Dialog>
  );
}

interface OnceProps {
  readonly hint: string;
  readonly label: string;
  readonly value: string;
  readonly close: () => void;
  readonly children?: ReactNode;
}

export function Once({ hint, label, value, close, children }: OnceProps) {
  return (
    <div className="stack">
      <Alert color="yellow">{hint}</Alert>
      <div className="row">
        <TextInput
          className="once-value"
          label={label}
          value={value}
          readOnly
          onFocus={(event) => event.target.select()}
          autoFocus
        />
        <span className="once-copy">
          <CopyButton text={value} />
        </span>
      </div>
      {children}
      <div className="row dialog-buttons">
        <Button onClick={close}>{texts.common.copiedIt}</Button>
      </div>
    </div>
  );
}
