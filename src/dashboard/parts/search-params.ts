// What the address has after its "?". wouter decodes it before URLSearchParams does: a "%20" that somebody looks for would be a blank.
import { useMemo } from 'react';
import { navigate, useSearch } from 'wouter/use-browser-location';

export function useSearchParams() {
  const search = useSearch();
  const params = useMemo(() => new URLSearchParams(search), [search]);
  return [params, setSearchParams] as const;
}

function setSearchParams(params: URLSearchParams, options: { readonly replace?: boolean } = {}): void {
  navigate(`${window.location.pathname}${params.size === 0 ? '' : `?${params}`}`, options);
}
