// Fields of JSON bodies about people: what is taken, and what is wrong with the rest.
import { z } from 'zod';
import { whyNotPassword } from './passwords.js';

/** RFC 5321 section 4.5.3.1.3, without the angle brackets. */
const EMAIL_CHARACTERS = 254;
const NAME_CHARACTERS = 100;
/** 128 characters of a normalised password have come from no more than this, whatever they are composed of. */
const PASSWORD_CHARACTERS = 1024;

export const EmailField = z
  .string()
  .trim()
  .max(EMAIL_CHARACTERS, `must have at most ${EMAIL_CHARACTERS} characters`)
  .pipe(z.email('must be an e-mail address'));

/** Counted as people and Postgres count. Postgres stores no NUL and no half of a pair, and no name has control characters. */
export const NameField = z
  .string()
  .trim()
  .refine((name) => [...name].length <= NAME_CHARACTERS, `must have at most ${NAME_CHARACTERS} characters`)
  .regex(/^[^\p{Cc}\p{Cs}]*$/u, 'must not have control characters')
  .meta({ maxLength: NAME_CHARACTERS });

/** One that says something. */
export const SomeNameField = NameField.min(1, 'must not be empty').meta({ maxLength: NAME_CHARACTERS });

/** One that is compared: how long it must be says nothing about whether it is right. */
export const PasswordField = z
  .string()
  .min(1, 'must not be empty')
  .max(PASSWORD_CHARACTERS, `must have at most ${PASSWORD_CHARACTERS} characters`);

/** One that is set. */
export const NewPasswordField = PasswordField.superRefine((password, context) => {
  const problem = whyNotPassword(password);
  if (problem !== null) context.addIssue(problem);
}).meta({ description: '12 to 128 characters' });
