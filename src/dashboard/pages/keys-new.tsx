// A new key: its name first, then its value, which is shown this once.
import { Alert, Button, Modal, Tabs, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { ask } from '../api/client.ts';
import { keysQuery } from '../api/queries.ts';
import { Key } from '../api/shapes.ts';
import { CopyButton } from '../parts/copy-button.tsx';
import { examplesFor } from '../parts/examples.ts';
import { useFocusReturn } from '../parts/focus-return.ts';
import { nameError } from '../parts/form.ts';
import { sentenceOf } from '../parts/problem.tsx';
import { Snippet } from '../parts/snippet.tsx';
import { texts } from '../texts.ts';

const t = texts.keys;

export function NewKey({ close }: { readonly close: () => void }) {
  useFocusReturn();
  const client = useQueryClient();
  const create = useMutation({
    mutationFn: (name: string) => ask({ method: 'POST', path: '/web/keys', body: { name }, shape: Key }),
    onSuccess: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
  const isMade = create.data !== undefined;
  return (
    <Modal
      opened
      onClose={close}
      title={isMade ? t.made : t.create}
      size={isMade ? 'lg' : 'md'}
      // Neither a click beside it nor Esc may take away what is shown once.
      closeOnClickOutside={!isMade}
      closeOnEscape={!isMade}
      closeButtonProps={{ 'aria-label': texts.common.close }}
    >
      {create.data === undefined ? (
        <NameForm create={create.mutate} isPending={create.isPending} error={create.error} close={close} />
      ) : (
        <Made value={create.data.value} close={close} />
      )}
    </Modal>
  );
}

interface NameFormProps {
  readonly create: (name: string) => void;
  readonly isPending: boolean;
  readonly error: unknown;
  readonly close: () => void;
}

function NameForm({ create, isPending, error, close }: NameFormProps) {
  const [name, setName] = useState('');
  const [isTried, setTried] = useState(false);
  function submit(event: FormEvent): void {
    event.preventDefault();
    setTried(true);
    if (nameError(name) === null) create(name);
  }
  return (
    <form onSubmit={submit} noValidate className="stack">
      {error !== null && (
        <Alert color="red" role="alert">
          {sentenceOf(error)}
        </Alert>
      )}
      <TextInput
        label={t.name}
        description={t.nameHint}
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
        error={isTried && nameError(name)}
        data-autofocus
      />
      <div className="row keys-buttons">
        <Button variant="default" onClick={close}>
          {texts.common.cancel}
        </Button>
        <Button type="submit" loading={isPending}>
          {t.create}
        </Button>
      </div>
    </form>
  );
}

function Made({ value, close }: { readonly value: string; readonly close: () => void }) {
  const examples = examplesFor(value);
  return (
    <div className="stack">
      <Alert color="yellow">{t.madeOnce}</Alert>
      <div className="row">
        <TextInput
          className="keys-value"
          label={t.value}
          value={value}
          readOnly
          onFocus={(event) => event.target.select()}
        />
        <span className="keys-copy">
          <CopyButton text={value} />
        </span>
      </div>
      <div>
        <h3 className="panel-title">{t.ready}</h3>
        <Tabs defaultValue={examples[0]?.language ?? ''}>
          <Tabs.List>
            {examples.map(({ language }) => (
              <Tabs.Tab key={language} value={language}>
                {language}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          {examples.map(({ language, code }) => (
            <Tabs.Panel key={language} value={language} pt="sm">
              <Snippet label={language} code={code} />
            </Tabs.Panel>
          ))}
        </Tabs>
      </div>
      <div className="row keys-buttons">
        <Button onClick={close}>{t.done}</Button>
      </div>
    </div>
  );
}
