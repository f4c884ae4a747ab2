// Signing in, whether by a password or by making an account: the session is remembered, and the way goes on.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { askOpenly } from '../api/client.ts';
import { meQuery } from '../api/queries.ts';
import { noteSignIn, rememberSession } from '../api/session.ts';
import { SignedIn } from '../api/shapes.ts';
import { returnAddress } from '../shell/return-address.ts';
import { useSearchParams } from './search-params.ts';

export function useSignIn(path: '/web/auth/login' | '/web/auth/register') {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [search] = useSearchParams();
  return useMutation({
    mutationFn: (body: Readonly<Record<string, string>>) =>
      askOpenly({ method: 'POST', path, body, shape: SignedIn, isHarmless: path === '/web/auth/login' }),
    onSuccess(signedIn) {
      client.clear();
      rememberSession(signedIn);
      noteSignIn();
      client.setQueryData(meQuery.queryKey, signedIn.user);
      navigate(returnAddress(search.get('next')), { replace: true });
    },
  });
}
