// What is said of a key when it is made or changed: its name, and what it may.
import { Checkbox, NumberInput, TextInput } from '@mantine/core';
import { type Key, type Scope, scopes } from '../api/shapes.ts';
import { limitError, nameError } from '../parts/field-rules.ts';
import { instantOf, localMinute } from '../parts/format.ts';
import { errorAt } from '../parts/problem.tsx';
import { texts } from '../texts.ts';
import { texts as t } from './key-texts.ts';

export interface KeyFields {
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Empty: as many as the account has. */
  readonly hourlyLimit: number | string;
  /** As a field of the browser has it, in the viewer's zone; empty: never. */
  readonly expires: string;
}

export const newKeyFields: KeyFields = { name: '', scopes, hourlyLimit: '', expires: '' };

export function fieldsOf(key: Key): KeyFields {
  return {
    name: key.name,
    scopes: key.scopes,
    hourlyLimit: key.hourlyLimit ?? '',
    expires: key.expires === null ? '' : localMinute(instantOf(key.expires)),
  };
}

export function areComplete({ name, scopes: chosen, hourlyLimit }: KeyFields): boolean {
  return nameError(name) === null && chosen.length > 0 && limitError(hourlyLimit) === null;
}

/** As the service takes them. `before`: what is the same as there is left out, also where its time is over by now. */
export function bodyOf(fields: KeyFields, before: KeyFields | null = null): object {
  const { name, scopes: chosen, hourlyLimit, expires } = fields;
  return {
    ...(before?.name === name ? {} : { name }),
    ...(before !== null && String(before.scopes) === String(chosen) ? {} : { scopes: chosen }),
    ...(before?.hourlyLimit === hourlyLimit ? {} : { hourlyLimit: hourlyLimit === '' ? null : hourlyLimit }),
    ...(before?.expires === expires
      ? {}
      : { expires: expires === '' ? null : new Date(expires).toISOString().slice(0, 19) }),
  };
}

/** Those that say what the service has against them. */
export const KEY_FIELDS = ['name', 'scopes', 'hourlyLimit', 'expires'];

interface InputsProps {
  readonly fields: KeyFields;
  readonly change: (fields: KeyFields) => void;
  /** Whether what is missing is said. */
  readonly isTried: boolean;
  /** What the service said. */
  readonly error: unknown;
}

export function KeyInputs({ fields, change, isTried, error }: InputsProps) {
  return (
    <>
      <TextInput
        label={t.name}
        description={t.nameHint}
        value={fields.name}
        onChange={({ currentTarget: { value: name } }) => change({ ...fields, name })}
        error={(isTried && nameError(fields.name)) || errorAt(error, 'name')}
        data-autofocus
      />
      <Checkbox.Group
        label={t.may}
        value={[...fields.scopes]}
        onChange={(chosen) => change({ ...fields, scopes: scopes.filter((scope) => chosen.includes(scope)) })}
        error={(isTried && fields.scopes.length === 0 && texts.fields.noneChosen) || errorAt(error, 'scopes')}
      >
        <div className="stack keys-scopes">
          {scopes.map((scope) => (
            <Checkbox key={scope} value={scope} label={t.scopes[scope]} description={t.scopeHints[scope]} />
          ))}
        </div>
      </Checkbox.Group>
      <div className="keys-limits">
        <NumberInput
          label={t.limit}
          placeholder={t.limitHint}
          value={fields.hourlyLimit}
          onChange={(hourlyLimit) => change({ ...fields, hourlyLimit })}
          clampBehavior="none"
          allowDecimal={false}
          allowNegative={false}
          hideControls
          error={(isTried && limitError(fields.hourlyLimit)) || errorAt(error, 'hourlyLimit')}
        />
        <TextInput
          type="datetime-local"
          label={t.expires}
          description={t.expiresHint}
          inputWrapperOrder={['label', 'input', 'description', 'error']}
          value={fields.expires}
          onChange={({ currentTarget: { value: expires } }) => change({ ...fields, expires })}
          error={errorAt(error, 'expires')}
        />
      </div>
    </>
  );
}
