// A new key: its name and what it may first, then its value, which is shown this once.
import { Alert, Button, Tabs, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ask } from '../api/client.ts';
import { keysQuery } from '../api/queries.ts';
import { Key } from '../api/shapes.ts';
import { CopyButton } from '../parts/copy-button.tsx';
import { Dialog, Step } from '../parts/dialog.tsx';
import { examplesFor } from '../parts/examples.ts';
import { Snippet } from '../parts/snippet.tsx';
import { texts as t } from './key-texts.ts';
import { areComplete, bodyOf, KeyInputs, newKeyFields } from './keys-fields.tsx';

export function NewKey({ close }: { readonly close: () => void }) {
  const client = useQueryClient();
  const [fields, setFields] = useState(newKeyFields);
  const [isTried, setTried] = useState(false);
  const create = useMutation({
    mutationFn: () => ask({ method: 'POST', path: '/web/keys', body: bodyOf(fields), shape: Key }),
    onSuccess: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
  const isMade = create.data !== undefined;
  return (
    <Dialog title={isMade ? t.made : t.create} close={close} size={isMade ? 'lg' : 'md'} isKept={isMade}>
      {isMade ? (
        <Made value={create.data.value} close={close} />
      ) : (
        <Step
          error={create.error}
          isPending={create.isPending}
          action={t.create}
          cancel={close}
          onSubmit={() => {
            setTried(true);
            if (areComplete(fields)) create.mutate();
          }}
        >
          <KeyInputs fields={fields} change={setFields} isTried={isTried} />
        </Step>
      )}
    </Dialog>
  );
}

function Made({ value, close }: { readonly value: string; readonly close: () => void }) {
  const examples = examplesFor(value);
  return (
    <div className="stack">
      <Alert color="yellow">{t.madeOnce}</Alert>
      <div className="row">
        <TextInput
          className="once-value"
          label={t.value}
          value={value}
          readOnly
          onFocus={(event) => event.target.select()}
        />
        <span className="once-copy">
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
      <div className="row dialog-buttons">
        <Button onClick={close}>{t.done}</Button>
      </div>
    </div>
  );
}
