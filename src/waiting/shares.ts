// How many of something each of many has at a time, such as the downloads of an account.

export class Shares {
  readonly #mostEach: number;
  readonly #taken = new Map<string, number>();
  /** Of all together. */
  all = 0;

  constructor(mostEach: number) {
    this.#mostEach = mostEach;
  }

  /** False: it has as many as it may. */
  take(name: string): boolean {
    const taken = this.#taken.get(name) ?? 0;
    if (taken >= this.#mostEach) return false;
    this.#taken.set(name, taken + 1);
    this.all += 1;
    return true;
  }

  /** Once for each that was taken. */
  giveBack(name: string): void {
    const left = (this.#taken.get(name) ?? 0) - 1;
    if (left > 0) this.#taken.set(name, left);
    else this.#taken.delete(name);
    this.all -= 1;
  }
}
