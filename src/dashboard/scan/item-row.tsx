// One file of the scan page: its name, what is going on with it, and what can be done about it.
import { Alert, Anchor, Button, Progress } from '@mantine/core';
import { memo, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { clock, number, size } from '../parts/format.ts';
import { noticeText } from '../parts/notice.ts';
import { VerdictBadge } from '../parts/verdict.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import { type Failed, type Item, type ItemState, isOver, LIMIT_BYTES, type Queue } from './queue.ts';

const t = texts.scan;

/** Drawn anew only where it has changed: there may be thousands. */
export const ItemRow = memo(function ItemRow({ item, queue }: { readonly item: Item; readonly queue: Queue }) {
  const { name, content, state, id } = item;
  /** Said by screen readers: there may be many of each. */
  const labelOf = (action: string): string => t.actionOf(action, visibleName(name));
  return (
    <li className="scan-item">
      <div className="scan-item-head">
        <span className="name scan-item-name" title={visibleName(name)}>
          {visibleName(name)}
        </span>
        <span className="dimmed small">{content.kind === 'file' ? size(content.file.size) : t.ofUrl}</span>
        <Outcome state={state} />
      </div>
      <Progressing state={state} />
      <div className="row row-apart">
        <Sentence state={state} />
        <span className="row scan-actions">
          {isStill(state) && (
            <Button
              size="compact-xs"
              variant="default"
              aria-label={labelOf(texts.common.retry)}
              onClick={() => queue.again(id)}
            >
              {texts.common.retry}
            </Button>
          )}
          {state.kind === 'paused' && (
            <Button size="compact-xs" variant="default" aria-label={labelOf(t.tryNow)} onClick={() => queue.resume()}>
              {t.tryNow}
            </Button>
          )}
          {(state.kind === 'failed' || state.kind === 'cancelled') && !isHopeless(state) && (
            <Button size="compact-xs" variant="default" aria-label={labelOf(t.again)} onClick={() => queue.again(id)}>
              {t.again}
            </Button>
          )}
          <Button
            size="compact-xs"
            variant="subtle"
            color="gray"
            onClick={() => queue.remove(id)}
            aria-label={labelOf(isOver(item) ? t.remove : t.cancel)}
          >
            {isOver(item) ? t.remove : t.cancel}
          </Button>
        </span>
      </div>
    </li>
  );
});

function isStill(state: ItemState): boolean {
  return (state.kind === 'uploading' || state.kind === 'scanning') && state.isStill === true;
}

/** It would fail again. */
export function isHopeless(state: ItemState): boolean {
  return state.kind === 'failed' && ['tooLarge', 'empty', 'unreadable'].includes(state.why.kind);
}

function Outcome({ state }: { readonly state: ItemState }) {
  if (state.kind === 'done') return <VerdictBadge kind={state.result.infected ? 'infected' : 'clean'} />;
  if (state.kind !== 'failed') return null;
  return <VerdictBadge kind={state.why.kind === 'incomplete' ? 'incomplete' : 'failed'} />;
}

function Progressing({ state }: { readonly state: ItemState }) {
  if (state.kind === 'uploading') {
    return <Progress value={state.percent} size="sm" aria-label={t.uploading(state.percent)} />;
  }
  if (state.kind === 'scanning') return <Progress value={100} size="sm" animated aria-label={t.scanning} />;
  return null;
}

function Sentence({ state }: { readonly state: ItemState }) {
  if (state.kind === 'paused') return <Paused state={state} />;
  if (isStill(state)) return <Waits text={state.kind === 'uploading' ? t.nothingSent : t.nothingAnswered} />;
  if (state.kind !== 'done') return <span className="dimmed small name">{visibleName(sentenceOf(state))}</span>;
  const { virusName, notice, scanId } = state.result;
  return (
    <span className="small name">
      {virusName !== null && <strong className="scan-virus">{t.infected(visibleName(virusName))} </strong>}
      {noticesOf(notice)}
      <Anchor component={Link} href={`/scans/${scanId}`} inherit>
        {t.details}
      </Anchor>
    </span>
  );
}

/** `encrypted, raw-content`, as the header has them. */
function noticesOf(notice: string | null): string {
  return notice === null ? '' : `${notice.split(', ').map(noticeText).join(' ')} `;
}

export function sentenceOf(state: Exclude<ItemState, { kind: 'paused' | 'done' }>): string {
  switch (state.kind) {
    case 'waiting':
      return t.waiting;
    case 'uploading':
      return t.uploading(state.percent);
    case 'scanning':
      return t.scanning;
    case 'cancelled':
      return t.cancelled;
    case 'failed':
      return reasonOf(state.why);
  }
}

function reasonOf(why: Failed): string {
  switch (why.kind) {
    case 'incomplete':
      return t.incomplete(why.reason);
    case 'refused':
      return t.failed(why.reason);
    case 'tooLarge':
      return t.tooLarge(number(why.bytes), number(LIMIT_BYTES));
    default:
      return t[why.kind];
  }
}

function Paused({ state }: { readonly state: Extract<ItemState, { kind: 'paused' }> }) {
  const seconds = useSecondsUntil(state.untilMs);
  const text = state.why === 'quota' ? t.quota(clock(new Date(state.untilMs))) : t[state.why](seconds);
  return <Waits text={text} />;
}

function Waits({ text }: { readonly text: string }) {
  return (
    <Alert color="yellow" p="xs">
      {text}
    </Alert>
  );
}

function useSecondsUntil(untilMs: number): number {
  const left = (): number => Math.max(0, Math.ceil((untilMs - Date.now()) / 1000));
  const [seconds, setSeconds] = useState(left);
  useEffect(() => {
    const timer = window.setInterval(() => setSeconds(Math.max(0, Math.ceil((untilMs - Date.now()) / 1000))), 500);
    return () => window.clearInterval(timer);
  }, [untilMs]);
  return seconds;
}
