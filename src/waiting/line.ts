// A line of things that come and go thousands of times a second, the oldest first.

/** What a thing in a line carries for it; only the line writes to it. It is in one line at a time. */
export interface InLine<Item> {
  before: Item | null;
  behind: Item | null;
}

/**
 * Stands in for a Set or a Map. V8 gives these another table every few entries, and the old table keeps a pointer to the new one. Once an
 * old table has become old to the garbage collector, it keeps all tables that come after it, with all that was in them at the time: everything of
 * a request then outlives it until the next collection of the whole heap. What has left a line points to nothing.
 */
export class Line<Item extends InLine<Item>> {
  /** Only the line writes to these. */
  size = 0;
  first: Item | null = null;
  #last: Item | null = null;

  has(item: Item): boolean {
    return item.before !== null || this.first === item;
  }

  /** Of those that are there now, also where `look` takes some of them out: it isn't called with these any more. */
  each(look: (item: Item) => void): void {
    const items: Item[] = [];
    for (let item = this.first; item !== null; item = item.behind) items.push(item);
    for (const item of items) if (this.has(item)) look(item);
  }

  /** Behind all others. It is in no line. */
  add(item: Item): void {
    const last = this.#last;
    item.before = last;
    if (last === null) this.first = item;
    else last.behind = item;
    this.#last = item;
    this.size += 1;
  }

  /** Before all others. It is in no line. */
  addFirst(item: Item): void {
    const first = this.first;
    item.behind = first;
    if (first === null) this.#last = item;
    else first.before = item;
    this.first = item;
    this.size += 1;
  }

  /** False: it isn't in the line. */
  remove(item: Item): boolean {
    const { before, behind } = item;
    if (before === null && this.first !== item) return false;
    if (before === null) this.first = behind;
    else before.behind = behind;
    if (behind === null) this.#last = before;
    else behind.before = before;
    item.before = null;
    item.behind = null;
    this.size -= 1;
    return true;
  }
}
