// Who is signed in, and what they can do about it.
import { Menu, UnstyledButton } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import { askOpenly } from '../api/client.ts';
import { meQuery } from '../api/queries.ts';
import { forgetSession } from '../api/session.ts';
import { Nothing } from '../api/shapes.ts';
import { AccountIcon, BillingIcon, OpenIcon, OperationIcon, SignOutIcon } from '../parts/icons.ts';
import { showProblem } from '../parts/notices.tsx';
import { visibleName } from '../parts/visible-name.ts';
import { queue } from '../scan/queue.ts';
import { texts } from '../texts.ts';

export function UserMenu() {
  const me = useQuery(meQuery);
  const signOut = useSignOut();
  const name = me.data === undefined ? '' : visibleName(me.data.name || me.data.email);
  return (
    <Menu position="bottom-end" width={240} returnFocus>
      <Menu.Target>
        <UnstyledButton className="user" aria-label={texts.nav.user}>
          <span className="user-mark" aria-hidden="true">
            {name === '' ? <AccountIcon /> : [...name][0]?.toUpperCase()}
          </span>
          <OpenIcon />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        {me.data !== undefined && (
          <Menu.Label>
            <span className="name user-name">{name}</span>
            <span className="name">{me.data.email}</span>
          </Menu.Label>
        )}
        <Menu.Item component={Link} href="/account" leftSection={<AccountIcon />}>
          {texts.nav.account}
        </Menu.Item>
        <Menu.Item component={Link} href="/billing" leftSection={<BillingIcon />}>
          {texts.nav.billing}
        </Menu.Item>
        {me.data?.role === 'operator' && (
          <Menu.Item component={Link} href="/admin" leftSection={<OperationIcon />}>
            {texts.nav.admin}
          </Menu.Item>
        )}
        <Menu.Divider />
        <Menu.Item leftSection={<SignOutIcon />} onClick={signOut}>
          {texts.nav.signOut}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function useSignOut(): () => Promise<void> {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  return async () => {
    try {
      await askOpenly({ method: 'POST', path: '/web/auth/logout', shape: Nothing, isHarmless: true });
    } catch (error) {
      // The session still lives: saying otherwise would be a lie.
      showProblem(error);
      return;
    }
    queue.clear();
    forgetSession();
    client.clear();
    navigate('/');
  };
}
