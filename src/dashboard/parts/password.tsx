// The field of a password: what Mantine's says to eyes and to the mouse, it says to screen readers and the keyboard as well.
import { PasswordInput, type PasswordInputProps } from '@mantine/core';
import type { ReactNode } from 'react';
import { texts } from '../texts.ts';

interface CurrentProps {
  readonly value: string;
  readonly setValue: (value: string) => void;
  readonly error: ReactNode;
}

/** In a dialog it is what the focus begins at. */
export function CurrentPassword({ value, setValue, error }: CurrentProps) {
  return (
    <Password
      label={texts.account.currentPassword}
      autoComplete="current-password"
      value={value}
      onChange={({ currentTarget }) => setValue(currentTarget.value)}
      error={error}
      data-autofocus
    />
  );
}

export function Password({ error, ...props }: PasswordInputProps) {
  return (
    <PasswordInput
      {...props}
      error={error}
      aria-invalid={error ? true : undefined}
      visibilityToggleFocusable
      visibilityToggleButtonProps={{ 'aria-label': texts.common.showPassword }}
    />
  );
}
