// A journal that keeps what it tells, for processes whose only job is to say it.
import { type Journal, openJournal } from '../../src/history/journal.js';

export async function openTelling(
  directory: string,
): Promise<{ journal: Journal; damage: string[]; hindered: string[] }> {
  const damage: string[] = [];
  const hindered: string[] = [];
  const journal = await openJournal({
    directory,
    limitBytes: 1024 * 1024,
    onDamage: ({ reason }) => damage.push(reason),
    onHindered: ({ reason }) => hindered.push(reason),
  });
  return { journal, damage, hindered };
}
