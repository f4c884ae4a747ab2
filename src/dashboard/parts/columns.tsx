// The names of a table's columns.

export function Columns({ names }: { readonly names: Readonly<Record<string, string>> }) {
  return Object.values(names).map((name) => (
    <th key={name} scope="col">
      {name}
    </th>
  ));
}
