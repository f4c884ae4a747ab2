import { PageTitle } from '../parts/title.tsx';
export function Docs({ guide }: { readonly guide: string | null }) {
  return <PageTitle title={guide ?? 'Docs'} />;
}
