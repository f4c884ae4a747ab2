// The few rules that forms check before they ask the service, which has the last word.
import { texts } from '../texts.ts';

const PASSWORD_MIN = 12;
const PASSWORD_MAX = 128;
const NAME_MAX = 100;

export function emailError(email: string): string | null {
  return email.trim() === '' ? texts.fields.emailMissing : null;
}

export function passwordError(password: string): string | null {
  return password === '' ? texts.fields.passwordMissing : null;
}

export function newPasswordError(password: string): string | null {
  const { length } = [...password.normalize('NFC')];
  if (length < PASSWORD_MIN) return texts.fields.passwordShort;
  return length > PASSWORD_MAX ? texts.fields.passwordLong : null;
}

/** Of scans in an hour: empty is none of its own. What is no number, or is beyond those that are exact, stays a text. */
export function limitError(limit: number | string): string | null {
  return limit === '' || (Number.isSafeInteger(limit) && Number(limit) > 0) ? null : texts.fields.limitWrong;
}

export function nameError(name: string): string | null {
  const { length } = [...name.trim()];
  if (length === 0) return texts.fields.nameMissing;
  return length > NAME_MAX ? texts.fields.nameLong : null;
}
