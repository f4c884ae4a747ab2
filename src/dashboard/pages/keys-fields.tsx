// What is said of a key when it is made or changed: its name, and what it may.
import { Checkbox, NumberInput, TextInput } from '@mantine/core';
import { type Key, type Scope, scopes } from '../api/shapes.ts';
import { nameError } from '../parts/form.ts';
import { instantOf, localMinute } from '../parts/format.ts';
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

export function areComplete({ name, scopes: chosen }: KeyFields): boolean {
  return nameError(name) === null && chosen.length > 0;
}

/** As the service takes them. `before`: what is the same as there is left out, also where its time is over by now. */
export function bodyOf(fields: KeyFields, before: KeyFields | null = null): object {
  const { name, scopes: chosen, hourlyLimit, expires } = fields;
  return {
    name,
    ...(before !== null && String(before.scopes) === String(chosen) ? {} : { scopes: chosen }),
    ...(before?.hourlyLimit === hourlyLimit
      ? {}
      : { hourlyLimit: typeof hourlyLimit === 'number' ? hourlyLimit : null }),
    ...(before?.expires === expires
      ? {}
      : { expires: expires === '' ? null : new Date(expires).toISOString().slice(0, 19) }),
  };
}

interface InputsProps {
  readonly fields: KeyFields;
  readonly change: (fields: KeyFields) => void;
  /** Whether what is missing is said. */
  readonly isTried: boolean;
}

export function KeyInputs({ fields, change, isTried }: InputsProps) {
  return (
    <>
      <TextInput
        label={t.name}
        description={t.nameHint}
        value={fields.name}
        onChange={({ currentTarget: { value: name } }) => change({ ...fields, name })}
        error={isTried && nameError(fields.name)}
        data-autofocus
      />
      <Checkbox.Group
        label={t.may}
        value={[...fields.scopes]}
        onChange={(chosen) => change({ ...fields, scopes: scopes.filter((scope) => chosen.includes(scope)) })}
        error={isTried && fields.scopes.length === 0 && t.mayMissing}
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
          min={1}
          max={1_000_000_000}
          allowDecimal={false}
          hideControls
        />
        <TextInput
          type="datetime-local"
          label={t.expires}
          description={t.expiresHint}
          inputWrapperOrder={['label', 'input', 'description', 'error']}
          value={fields.expires}
          onChange={({ currentTarget: { value: expires } }) => change({ ...fields, expires })}
        />
      </div>
    </>
  );
}
