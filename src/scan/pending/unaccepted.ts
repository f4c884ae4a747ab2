// Scans that were refused while the database was asked to keep them. It may have kept them: they are taken away until that is done.
import type { PendingScans } from '../../history/pending-scans.js';
import type { ArrivingContent } from './content-store.js';

export class Unaccepted {
  readonly #table: Pick<PendingScans, 'remove'>;
  readonly #contents = new Map<string, Pick<ArrivingContent, 'drop'>>();

  constructor(table: Pick<PendingScans, 'remove'>) {
    this.#table = table;
  }

  add(id: string, content: Pick<ArrivingContent, 'drop'>): void {
    this.#contents.set(id, content);
  }

  /** Rejects while the database or the disk fails: those that are left are for the next time. */
  async remove(): Promise<void> {
    for (const [id, content] of this.#contents) {
      await this.#table.remove(id);
      await content.drop();
      this.#contents.delete(id);
    }
  }
}
