// Dialogs: a frame that gives the focus back, a form of one step in it, and a question before what can't be undone.
import { Button, Modal, type ModalProps } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';
import { texts } from '../texts.ts';
import { Form, type Sending } from './form.tsx';
import { FormProblem } from './problem.tsx';

interface DialogProps {
  readonly title: ReactNode;
  readonly close: () => void;
  readonly size?: ModalProps['size'];
  /** What is shown once may be taken away neither by a click beside it nor by Esc. */
  readonly isKept?: boolean;
  readonly children: ReactNode;
}

/** For what is rendered only while it is open. */
export function Dialog({ title, close, size = 'md', isKept = false, children }: DialogProps) {
  useFocusReturn();
  return (
    <Modal
      opened
      onClose={close}
      title={title}
      size={size}
      centered
      // Locking it writes a style element.
      lockScroll={false}
      closeOnClickOutside={!isKept}
      closeOnEscape={!isKept}
      closeButtonProps={{ 'aria-label': texts.common.close }}
    >
      {children}
    </Modal>
  );
}

/** The focus goes back where it was; where that has gone, as the row of what was revoked, the content of the page has it. */
function useFocusReturn(): void {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      if (before?.isConnected === false) focusContent();
      else if (before instanceof HTMLElement) before.focus();
    },
    [before],
  );
}

function focusContent(): void {
  document.querySelector<HTMLElement>('main')?.focus({ preventScroll: true });
}

interface StepProps {
  readonly sends: Sending;
  readonly action: string;
  readonly color?: string;
  readonly onSubmit: () => void;
  /** Absent: it has no button that closes it. */
  readonly cancel?: () => void;
  /** Those that say themselves what is wrong with them. */
  readonly fields?: readonly string[];
  readonly children: ReactNode;
}

export function Step({ sends, action, color = 'blue', onSubmit, cancel, fields = [], children }: StepProps) {
  return (
    <Form onSubmit={onSubmit} sends={sends}>
      <FormProblem error={sends.error} fields={fields} />
      {children}
      <div className="row dialog-buttons">
        {cancel !== undefined && (
          <Button variant="default" onClick={cancel}>
            {texts.common.cancel}
          </Button>
        )}
        <Button type="submit" color={color} loading={sends.isPending}>
          {action}
        </Button>
      </div>
    </Form>
  );
}

interface QuestionProps {
  readonly title: string;
  readonly text: string;
  readonly action: string;
  readonly isPending: boolean;
  readonly act: () => void;
  readonly close: () => void;
}

/** The focus is on the button that does nothing. */
export function Question({ title, text, action, isPending, act, close }: QuestionProps) {
  return (
    <Dialog title={title} close={close}>
      <p className="name dialog-text">{text}</p>
      <div className="row dialog-buttons">
        <Button variant="default" onClick={close} data-autofocus>
          {texts.common.cancel}
        </Button>
        <Button color="red" loading={isPending} onClick={act}>
          {action}
        </Button>
      </div>
    </Dialog>
  );
}
