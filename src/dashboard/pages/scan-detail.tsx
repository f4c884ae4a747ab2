// One scan at an address of its own: the verdict and what has looked, where it came from, and the content.
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link, useParams } from 'wouter';
import { useSearch } from 'wouter/use-browser-location';
import { scanQuery } from '../api/queries.ts';
import type { ScanDetail } from '../api/shapes.ts';
import { CopyButton } from '../parts/copy-button.tsx';
import { number, size } from '../parts/format.ts';
import { BackIcon, LinkIcon } from '../parts/icons.ts';
import { noticeText } from '../parts/notice.ts';
import { One } from '../parts/one.tsx';
import { sourceText } from '../parts/protocol.ts';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { Verdict } from '../parts/verdict.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { texts } from '../texts.ts';
import './scan-detail.css';

const t = texts.detail;

export function ScanDetailPage() {
  const { id = '' } = useParams<{ readonly id: string }>();
  const scan = useQuery(scanQuery(id));
  // With the filters of the list that has led here.
  const history = `/history${useSearch()}`;
  return (
    <>
      <Link href={history} className="back">
        <BackIcon />
        {texts.nav.history}
      </Link>
      <One
        query={scan}
        texts={t}
        instead={
          <Button component={Link} href={history} variant="default">
            {t.toHistory}
          </Button>
        }
      >
        {(found) => <Found scan={found} />}
      </One>
    </>
  );
}

function Found({ scan }: { readonly scan: ScanDetail }) {
  const name = scan.filename === '' ? texts.history.noName : visibleName(scan.filename);
  return (
    <>
      <PageTitle title={name}>
        <CopyButton text={`${window.location.origin}/scans/${scan.id}`} label={t.copyAddress} />
        {scan.sha256 !== null && (
          <Button component={Link} href={`/history?sha256=${scan.sha256}`} variant="default" size="compact-sm">
            {t.sameContent}
          </Button>
        )}
      </PageTitle>
      <div className="detail">
        <Panel title={t.verdict} facts={verdictFacts(scan)} />
        <Panel title={t.source} facts={sourceFacts(scan)} />
        <Panel title={t.content} facts={contentFacts(scan)} />
      </div>
    </>
  );
}

type Facts = readonly (readonly [label: string, value: ReactNode])[];

function verdictFacts(scan: ScanDetail): Facts {
  const { virusName, error, notices, status, engine, signatures, scanDurationMillis } = scan;
  return [
    [t.verdict, <Verdict key="verdict" scan={{ status, infected: scan.infected === true }} />],
    [
      t.virus,
      virusName === null ? null : (
        <Link key="virus" className="detail-link" href={`/history?virus=${encodeURIComponent(virusName)}`}>
          {visibleName(virusName)}
        </Link>
      ),
    ],
    [t.error, error === null ? null : visibleName(error)],
    [t.notices, notices.length === 0 ? null : notices.map(noticeText).join(' ')],
    [t.status, status],
    [t.engine, engine ?? t.notLooked],
    [t.signatures, signatures],
    [t.duration, texts.history.duration(number(scanDurationMillis))],
  ];
}

function sourceFacts({ key, protocol, url, metadata, creationDate, lastUpdate, id, env }: ScanDetail): Facts {
  return [
    [
      t.askedBy,
      key === null ? (
        sourceText(protocol)
      ) : (
        <Link key="key" className="detail-link" href={`/history?key=${key.uuid}`}>
          {visibleName(key.name)}
        </Link>
      ),
    ],
    [
      t.url,
      url === null ? null : (
        <span key="url">
          <LinkIcon /> {visibleName(url)}
        </span>
      ),
    ],
    [t.metadata, metadata === null ? null : visibleName(metadata)],
    [t.started, <Time key="started" at={creationDate} />],
    [t.decided, <Time key="decided" at={lastUpdate} />],
    [t.id, <Code key="id" text={id} />],
    [t.env, env],
  ];
}

function contentFacts({ filename, sizeInBytes, sha256, detectedType }: ScanDetail): Facts {
  return [
    [t.name, filename === '' ? texts.history.noName : visibleName(filename)],
    [t.size, sizeInBytes === null ? t.notWhole : sizeOf(sizeInBytes)],
    [t.detectedType, detectedType],
    [t.sha256, sha256 === null ? null : <Code key="sha256" text={sha256} />],
  ];
}

/** Rounded, and to the byte. */
function sizeOf(bytes: number): string {
  const [rounded, exact] = [size(bytes), `${number(bytes)} B`];
  return rounded === exact ? exact : `${rounded} (${exact})`;
}

function Panel({ title, facts }: { readonly title: string; readonly facts: Facts }) {
  return (
    <section className="panel" aria-label={title}>
      <h2 className="panel-title">{title}</h2>
      <dl className="facts">
        {facts
          .filter(([, value]) => value !== null)
          .map(([label, value]) => (
            <div key={label} className="detail-fact">
              <dt>{label}</dt>
              <dd className="name">{value}</dd>
            </div>
          ))}
      </dl>
    </section>
  );
}

function Code({ text }: { readonly text: string }) {
  return (
    <span className="row detail-code">
      <span className="code">{text}</span>
      <CopyButton text={text} />
    </span>
  );
}
