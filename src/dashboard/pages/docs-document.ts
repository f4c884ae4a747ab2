// The OpenAPI document as the reference shows it.
import { queryOptions } from '@tanstack/react-query';
import { z } from 'zod/mini';
import { askOpenly } from '../api/client.ts';

const OpenApi = z.looseObject({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) });

export const documentQuery = queryOptions({
  queryKey: ['openapi'],
  queryFn: async () => withoutHead(await askOpenly({ path: '/openapi.json', shape: OpenApi })),
  staleTime: Number.POSITIVE_INFINITY,
});

/** HEAD is what GET is. The introduction says so once, instead of a line for each. */
function withoutHead(document: z.infer<typeof OpenApi>): object {
  const paths = Object.entries(document.paths).map(([path, { head: _, ...methods }]) => [path, methods]);
  return { ...document, paths: Object.fromEntries(paths) };
}
