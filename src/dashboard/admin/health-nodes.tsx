// The processes that share the stores, the one that answers first.
import { Badge } from '@mantine/core';
import { Columns } from '../parts/columns.tsx';
import { number } from '../parts/format.ts';
import { Time } from '../parts/time.tsx';
import type { Health } from './api.ts';
import { texts } from './texts.ts';

const t = texts.health;
const colours = { answers: 'blue', heard: 'teal', silent: 'red', loading: 'yellow' } as const;

type Node = Health['nodes'][number];

export function Nodes({ nodes }: Pick<Health, 'nodes'>) {
  const { signatures, ...columns } = t.nodeColumns;
  return (
    <section className="panel" aria-label={t.nodes}>
      <h2 className="panel-title">{t.nodes}</h2>
      <p className="small dimmed">{t.nodesHint}</p>
      <table className="table">
        <caption className="unseen">{t.nodes}</caption>
        <thead>
          <tr>
            <Columns names={columns} />
            <th scope="col" className="table-number">
              {signatures}
            </th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <Row key={`${node.id} ${node.pid}`} node={node} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function stateOf({ isSilent, answers, engine }: Node): keyof typeof colours {
  if (isSilent) return 'silent';
  if (engine === null) return 'loading';
  return answers ? 'answers' : 'heard';
}

function Row({ node }: { readonly node: Node }) {
  const { id, host, pid, version, engine, signatures, builtAt, since, lastHeard } = node;
  const state = stateOf(node);
  const columns = t.nodeColumns;
  return (
    <tr>
      <td className="name" title={id}>
        {host} · {pid}
      </td>
      <td data-label={columns.state}>
        <Badge color={colours[state]}>{t.nodeStates[state]}</Badge>
      </td>
      <td data-label={columns.version}>{version}</td>
      <td data-label={columns.engine}>{engine ?? '–'}</td>
      <td data-label={columns.built}>{builtAt === null ? '–' : <Time at={builtAt} />}</td>
      <td data-label={columns.since}>
        <Time at={since} />
      </td>
      <td data-label={columns.heard}>
        <Time at={lastHeard} />
      </td>
      <td className="table-number" data-label={columns.signatures}>
        {number(signatures)}
      </td>
    </tr>
  );
}
