// What is said of a webhook when it is made or changed.
import { Checkbox, TextInput } from '@mantine/core';
import { type EventName, events } from '../api/webhooks.ts';
import { errorAt } from '../parts/problem.tsx';
import { texts } from '../texts.ts';
import { texts as t } from './webhook-texts.ts';

export interface WebhookFields {
  readonly url: string;
  readonly events: readonly EventName[];
}

function urlError(url: string): string | null {
  return /^https?:\/\/./i.test(url) ? null : texts.fields.urlWrong;
}

export function areComplete({ url, events: chosen }: WebhookFields): boolean {
  return urlError(url) === null && chosen.length > 0;
}

/** Those that say what the service has against them. */
export const WEBHOOK_FIELDS = ['url', 'events'];

interface InputsProps {
  readonly fields: WebhookFields;
  readonly change: (fields: WebhookFields) => void;
  /** Whether what is missing is said. */
  readonly isTried: boolean;
  /** What the service said. */
  readonly error: unknown;
}

export function WebhookInputs({ fields, change, isTried, error }: InputsProps) {
  return (
    <>
      <TextInput
        type="url"
        label={t.url}
        description={t.urlHint}
        value={fields.url}
        onChange={({ currentTarget: { value } }) => change({ ...fields, url: value.trim() })}
        error={(isTried && urlError(fields.url)) || errorAt(error, 'url')}
        data-autofocus
      />
      <Checkbox.Group
        label={t.events}
        value={[...fields.events]}
        onChange={(chosen) => change({ ...fields, events: events.filter((event) => chosen.includes(event)) })}
        error={(isTried && fields.events.length === 0 && texts.fields.noneChosen) || errorAt(error, 'events')}
      >
        <div className="stack webhook-events">
          {events.map((event) => (
            <Checkbox key={event} value={event} label={t.eventNames[event]} description={t.eventHints[event]} />
          ))}
        </div>
      </Checkbox.Group>
    </>
  );
}
