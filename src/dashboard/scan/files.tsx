// The list of the scan page: how many files came to what, and those of one outcome alone where somebody looks for them.
import { Button } from '@mantine/core';
import { useState } from 'react';
import { number } from '../parts/format.ts';
import { texts } from '../texts.ts';
import { ItemRow, isHopeless } from './item-row.tsx';
import { type Item, isOver, type Queue } from './queue.ts';

const t = texts.scan;

type Outcome = keyof typeof t.outcomes;

const outcomes: readonly Outcome[] = ['infected', 'failed', 'clean'];

/** Null: it has none yet. */
function outcomeOf({ state }: Item): Outcome | null {
  if (state.kind === 'done') return state.result.infected ? 'infected' : 'clean';
  return state.kind === 'failed' || state.kind === 'cancelled' ? 'failed' : null;
}

interface FilesProps {
  readonly items: readonly Item[];
  readonly queue: Queue;
}

export function Files({ items, queue }: FilesProps) {
  const [chosen, setChosen] = useState<Outcome | null>(null);
  const ended = items.filter(isOver).length;
  const failed = items.filter((item) => outcomeOf(item) === 'failed' && !isHopeless(item.state));
  // The last of them may have been removed, or be scanned again.
  const shown = chosen === null || !items.some((item) => outcomeOf(item) === chosen) ? null : chosen;
  return (
    <section className="panel" aria-label={t.list}>
      <div className="row row-apart">
        <h2 className="panel-title">{t.list}</h2>
        <span className="dimmed small">{t.summary(number(ended), number(items.length))}</span>
        <span className="row scan-actions">
          {failed.length > 1 && (
            <Button size="compact-sm" variant="default" onClick={() => againAll(failed, queue)}>
              {t.againAll(number(failed.length))}
            </Button>
          )}
          <Button size="compact-sm" variant="default" disabled={ended === 0} onClick={() => queue.clearEnded()}>
            {t.clear}
          </Button>
        </span>
      </div>
      <Outcomes items={items} shown={shown} choose={setChosen} />
      <ul className="scan-items">
        {items
          .filter((item) => shown === null || outcomeOf(item) === shown)
          .map((item) => (
            <ItemRow key={item.id} item={item} queue={queue} />
          ))}
      </ul>
    </section>
  );
}

function againAll(failed: readonly Item[], queue: Queue): void {
  for (const { id } of failed) queue.again(id);
}

interface OutcomesProps {
  readonly items: readonly Item[];
  readonly shown: Outcome | null;
  readonly choose: (outcome: Outcome | null) => void;
}

/** Where files have come to different ends. */
function Outcomes({ items, shown, choose }: OutcomesProps) {
  const counts = outcomes.map((outcome) => ({
    outcome,
    count: items.filter((item) => outcomeOf(item) === outcome).length,
  }));
  const known = counts.filter(({ count }) => count > 0);
  if (items.length < 2 || known.length === 0) return null;
  const button = (label: string, outcome: Outcome | null) => (
    <Button
      key={label}
      size="compact-sm"
      variant={shown === outcome ? 'light' : 'subtle'}
      color={shown === outcome ? 'blue' : 'gray'}
      aria-pressed={shown === outcome}
      onClick={() => choose(outcome)}
    >
      {label}
    </Button>
  );
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for what is filled in.
    <div className="row scan-outcomes" role="group" aria-label={t.show}>
      {button(t.all(number(items.length)), null)}
      {known.map(({ outcome, count }) => button(t.outcomes[outcome](number(count)), outcome))}
    </div>
  );
}
