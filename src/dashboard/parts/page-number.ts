// The number of a page as an address has it, from 1. Anybody may have typed it.
const MOST = 999_999;

export function pageIn(query: URLSearchParams): number {
  const page = Number(query.get('page') ?? 1);
  return Number.isInteger(page) && page >= 1 && page <= MOST ? page : 1;
}
