// The field of a password: what Mantine's says to eyes and to the mouse, it says to screen readers and the keyboard as well.
import { PasswordInput, type PasswordInputProps } from '@mantine/core';
import { texts } from '../texts.ts';

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
