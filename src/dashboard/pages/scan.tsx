// The scan page: files in, verdicts as they come. The files go on while other pages are shown.
import { Button, TextInput } from '@mantine/core';
import { Dropzone } from '@mantine/dropzone';
import '@mantine/dropzone/styles.css';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { quotaQuery } from '../api/queries.ts';
import { newDraft, useDraft } from '../parts/draft.ts';
import { Form } from '../parts/form.tsx';
import { DropIcon, LinkIcon } from '../parts/icons.ts';
import { showNote } from '../parts/notices.tsx';
import { PageTitle } from '../parts/title.tsx';
import { filesIn } from '../scan/dropped.ts';
import { eicarFile } from '../scan/eicar.ts';
import { Files } from '../scan/files.tsx';
import { sentenceOf } from '../scan/item-row.tsx';
import { type Item, queue } from '../scan/queue.ts';
import { texts } from '../texts.ts';
import { QuotaPanel } from './overview-quota.tsx';
import './scan.css';

const t = texts.scan;
const urlDraft = newDraft<string>();

window.addEventListener('beforeunload', (event) => {
  if (queue.isBusy()) event.preventDefault();
});

export function ScanPage() {
  const items = useSyncExternalStore(queue.subscribe, queue.items);
  const news = useNews();
  const openDialog = useRef<() => void>(null);
  usePasted();
  return (
    <>
      <PageTitle title={t.title} lead={t.lead} />
      <div className="scan">
        <div className="stack">
          {/* The library hears of files alone, and drops what is something else without a word. */}
          <section
            className="panel"
            aria-label={t.files}
            onDrop={({ dataTransfer: { types } }) => {
              if (!types.includes('Files')) showNote(t.nothingDropped);
            }}
          >
            <Dropzone
              onDrop={(files) => queue.add(files)}
              onDropAny={(files) => {
                if (files.length === 0) showNote(t.nothingDropped);
              }}
              getFilesFromEvent={filesIn}
              openRef={openDialog}
              activateOnClick={false}
              activateOnKeyboard={false}
              enablePointerEvents
              className="scan-drop"
              inputProps={{ 'aria-label': t.choose }}
            >
              <DropIcon size={36} className="dimmed" />
              <p className="blank-title">{t.drop}</p>
              <div className="row scan-choose">
                <Button onClick={() => openDialog.current?.()}>{t.choose}</Button>
                <Button variant="default" onClick={() => queue.add([eicarFile()])}>
                  {t.eicar}
                </Button>
              </div>
              <p className="dimmed small">{t.eicarHint}</p>
            </Dropzone>
            <UrlForm />
          </section>
          {items.length > 0 && <Files items={items} queue={queue} />}
        </div>
        <section className="panel scan-quota">
          <h2 className="panel-title">{texts.overview.quota}</h2>
          <QuotaPanel />
        </section>
      </div>
      <div role="log" aria-label={t.news} className="unseen">
        {news.map(({ at, text }) => (
          <p key={at}>{text}</p>
        ))}
      </div>
    </>
  );
}

/** Files are pasted wherever the focus is, but in a text: tables come with a picture of themselves. Where they are dropped, the library has taken them. */
function usePasted(): void {
  useEffect(() => {
    const add = (event: ClipboardEvent): void => {
      const files = [...(event.clipboardData?.files ?? [])];
      const isText = event.target instanceof HTMLInputElement;
      if (event.defaultPrevented || isText || files.length === 0) return;
      event.preventDefault();
      queue.add(files);
    };
    document.addEventListener('paste', add);
    return () => document.removeEventListener('paste', add);
  }, []);
}

/** What the service thinks of the URL it says itself; here only what can't be one is said. */
function UrlForm() {
  const [url, setUrl] = useDraft(urlDraft, '');
  const [isTried, setTried] = useState(false);
  const isWrong = !/^https?:\/\/./i.test(url.trim());
  function submit(): void {
    setTried(isWrong);
    if (isWrong) return;
    queue.addUrl(url.trim());
    setUrl('');
  }
  return (
    <Form className="scan-url" onSubmit={submit}>
      <TextInput
        label={t.url}
        type="url"
        placeholder="https://"
        leftSection={<LinkIcon />}
        value={url}
        onChange={({ currentTarget }) => setUrl(currentTarget.value)}
        error={isTried && isWrong && texts.fields.urlWrong}
      />
      <Button type="submit" variant="default">
        {t.scanUrl}
      </Button>
    </Form>
  );
}

interface News {
  readonly at: number;
  readonly text: string;
}

/** More than end before a screen reader has said them. */
const NEWS = 20;

/** What has ended, for who listens to the page: each is said once, also where it is the same as the one before. The numbers of other pages have changed with it. */
function useNews(): readonly News[] {
  const client = useQueryClient();
  const [news, setNews] = useState<readonly News[]>([]);
  useEffect(
    () =>
      queue.listen({
        onQuota: (quota) => client.setQueryData(quotaQuery.queryKey, quota),
        onEnd(item) {
          setNews((before) => [...before.slice(1 - NEWS), { at: (before.at(-1)?.at ?? 0) + 1, text: newsOf(item) }]);
          void client.invalidateQueries({ queryKey: ['stats'] });
        },
      }),
    [client],
  );
  return news;
}

function newsOf({ name, state }: Item): string {
  if (state.kind === 'done') {
    const { virusName } = state.result;
    return virusName === null ? t.announce.clean(name) : t.announce.infected(name, virusName);
  }
  return state.kind === 'paused' ? '' : t.announce.failed(name, sentenceOf(state));
}
