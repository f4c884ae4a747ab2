// A line of things that come and go thousands of times a second, the oldest first.

/** What a thing in a line carries for it; only the line writes to it. */
export interface InLine<Item> {
  before: Item | null;
  behind: Item | null;
}

/**
 * Stands in for a Set or a Map. V8 gives these another table every few entries, and the old table keeps a pointer to the new one. Once an
 * old table has become old to the garbage collector, it keeps all tables that come after it, with all that was in them at the time: everything of
 * a request then outlives it until the next collection of the whole heap. What has left a line points to nothing.
 */
export interface Line<Item> {
  readonly size: number;
  first(): Item | null;
  has(item: Item): boolean;
  /** Behind all others. It is in no line. */
  add(item: Item): void;
  /** False: it isn't in the line. */
  remove(item: Item): boolean;
}

/** Without getters: they cost more than all else of a line, and some are made with each request. */
export function createLine<Item extends InLine<Item>>(): Line<Item> {
  let first: Item | null = null;
  let last: Item | null = null;
  const has = (item: Item): boolean => item.before !== null || first === item;
  const line = {
    size: 0,
    first: () => first,
    has,
    add(item: Item) {
      item.before = last;
      if (last === null) first = item;
      else last.behind = item;
      last = item;
      line.size += 1;
    },
    remove(item: Item) {
      if (!has(item)) return false;
      const { before, behind } = item;
      if (before === null) first = behind;
      else before.behind = behind;
      if (behind === null) last = before;
      else behind.before = before;
      item.before = null;
      item.behind = null;
      line.size -= 1;
      return true;
    },
  };
  return line;
}
