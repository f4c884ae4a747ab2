// Accounts: found by a part of the address or the name, with what each may do and uses; one of them opened.
import { ActionIcon, Badge, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Redirect } from 'wouter';
import { Awaited } from '../parts/awaited.tsx';
import { Blank } from '../parts/blank.tsx';
import { number } from '../parts/format.ts';
import { NextIcon, PreviousIcon } from '../parts/icons.ts';
import { pageIn } from '../parts/page-number.ts';
import { useSearchParams } from '../parts/search-params.ts';
import { LinesSkeleton } from '../parts/skeletons.tsx';
import { Time } from '../parts/time.tsx';
import { PageTitle } from '../parts/title.tsx';
import { useTyped } from '../parts/typed.ts';
import { visibleName } from '../parts/visible-name.ts';
import { texts as common } from '../texts.ts';
import { AccountDialog, accountDraft } from './account-dialog.tsx';
import { type Account, accountsQuery } from './api.ts';
import { texts } from './texts.ts';

const t = texts.accounts;
const PAGE = 50;

export function AccountsPage() {
  const [search, setSearch] = useSearchParams();
  const q = search.get('q') ?? '';
  const page = pageIn(search);
  const [text, setText] = useTyped(q, (typed) => setSearch(searchOf(typed, 1), { replace: true }));
  const [open, setOpen] = useState<Account | null>(() => accountDraft.kept?.account ?? null);
  const found = useQuery(accountsQuery(q.trim(), page - 1));
  const { accounts = [], total = 0, plans = [] } = found.data ?? {};
  const last = Math.ceil(total / PAGE);
  return (
    <>
      <PageTitle title={texts.pages.accounts} />
      <section className="panel" aria-label={texts.pages.accounts}>
        <div className="row row-apart admin-search">
          <TextInput
            className="admin-field"
            type="search"
            aria-label={t.search}
            placeholder={t.search}
            value={text}
            onChange={({ currentTarget: { value } }) => setText(value)}
          />
          {total > 0 && <Paging page={page} total={total} go={(to) => setSearch(searchOf(q, to))} />}
        </div>
        <Awaited query={found} skeleton={<LinesSkeleton lines={8} height={30} />} />
        {found.isSuccess && total === 0 && <Blank title={t.none} hint={t.noneHint} />}
        {total > 0 && page > last && <Redirect to={`/admin/accounts?${searchOf(q, last)}`} replace />}
        {accounts.length > 0 && <Table accounts={accounts} open={setOpen} />}
      </section>
      {open !== null && <AccountDialog account={open} plans={plans} close={() => setOpen(null)} />}
    </>
  );
}

/** What is as it is by itself is left out. */
function searchOf(q: string, page: number): URLSearchParams {
  return new URLSearchParams({ ...(q === '' ? {} : { q }), ...(page > 1 ? { page: String(page) } : {}) });
}

interface PagingProps {
  readonly page: number;
  readonly total: number;
  readonly go: (page: number) => void;
}

function Paging({ page, total, go }: PagingProps) {
  const end = page * PAGE;
  return (
    <div className="row">
      <span className="small dimmed">
        {t.count(number(end - PAGE + 1), number(Math.min(total, end)), number(total))}
      </span>
      <ActionIcon
        variant="default"
        aria-label={common.common.previousPage}
        disabled={page === 1}
        onClick={() => go(page - 1)}
      >
        <PreviousIcon />
      </ActionIcon>
      <ActionIcon
        variant="default"
        aria-label={common.common.nextPage}
        disabled={end >= total}
        onClick={() => go(page + 1)}
      >
        <NextIcon />
      </ActionIcon>
    </div>
  );
}

const colours = { user: 'gray', operator: 'blue', suspended: 'red' } as const;

function Table({
  accounts,
  open,
}: {
  readonly accounts: readonly Account[];
  readonly open: (account: Account) => void;
}) {
  return (
    <table className="table">
      <caption className="unseen">{texts.pages.accounts}</caption>
      <thead>
        <tr>
          <th scope="col">{t.columns.account}</th>
          <th scope="col">{t.columns.state}</th>
          <th scope="col">{t.columns.plan}</th>
          <th scope="col">{t.columns.use}</th>
          {[t.columns.limit, t.columns.scans, t.columns.keys].map((column) => (
            <th key={column} scope="col" className="table-number">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {accounts.map((account) => (
          <Row key={account.id} account={account} open={() => open(account)} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ account, open }: { readonly account: Account; readonly open: () => void }) {
  const { email, name, plan, role, suspendedAt, lastUse } = account;
  const state = suspendedAt === null ? role : 'suspended';
  return (
    <tr>
      <td>
        <button type="button" className="table-open name" aria-label={t.open(visibleName(email))} onClick={open}>
          {visibleName(email)}
        </button>
        {name !== '' && <span className="small dimmed name admin-second">{visibleName(name)}</span>}
      </td>
      <td data-label={t.columns.state}>
        <Badge color={colours[state]}>{t.states[state]}</Badge>
      </td>
      <td className="admin-plan" data-label={t.columns.plan}>
        {plan}
      </td>
      <td data-label={t.columns.use}>{lastUse === null ? common.common.never : <Time at={lastUse} />}</td>
      <td className="table-number" data-label={t.columns.limit}>
        {number(account.hourlyLimit)}
      </td>
      <td className="table-number" data-label={t.columns.scans}>
        {number(account.scans)}
      </td>
      <td className="table-number" data-label={t.columns.keys}>
        {number(account.keys)}
      </td>
    </tr>
  );
}
