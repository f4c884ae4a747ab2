// A new key: its name and what it may first, then its value, which is shown this once.
import { Tabs } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ask } from '../api/client.ts';
import { keysQuery } from '../api/queries.ts';
import { Key } from '../api/shapes.ts';
import { newDraft, useDraft } from '../parts/draft.ts';
import { examplesFor } from '../parts/examples.ts';
import { MakingDialog, Once } from '../parts/once.tsx';
import { Snippet } from '../parts/snippet.tsx';
import { texts as t } from './key-texts.ts';
import { areComplete, bodyOf, KEY_FIELDS, type KeyFields, KeyInputs, newKeyFields } from './keys-fields.tsx';

export const newKeyDraft = newDraft<KeyFields>();

export function NewKey({ close }: { readonly close: () => void }) {
  const client = useQueryClient();
  const [fields, setFields] = useDraft(newKeyDraft, newKeyFields);
  const create = useMutation({
    mutationFn: () => ask({ method: 'POST', path: '/web/keys', body: bodyOf(fields), shape: Key }),
    onSettled: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
  return (
    <MakingDialog
      title={t.create}
      madeTitle={t.made}
      make={create}
      isComplete={areComplete(fields)}
      fieldNames={KEY_FIELDS}
      fields={(state) => <KeyInputs fields={fields} change={setFields} {...state} />}
      made={({ value }) => (
        <Once hint={t.madeOnce} label={t.value} value={value} close={close}>
          <Examples value={value} />
        </Once>
      )}
      madeSize="lg"
      close={close}
    />
  );
}

function Examples({ value }: { readonly value: string }) {
  const examples = examplesFor(value);
  return (
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
  );
}
