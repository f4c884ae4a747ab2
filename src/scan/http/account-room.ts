// Where a body counts whose account is known and whose scan has not begun: in the memory of uploads, as what waits there does, and not in the budget of bodies of strangers.
import type { BodyRoom } from '../../http/body-budget.js';
import type { UploadMemory } from '../memory/memory.js';

export type AsideMemory = Pick<UploadMemory, 'setAside' | 'takeUp'>;

export class AccountRoom implements BodyRoom {
  readonly #memory: AsideMemory;
  readonly #account: string;

  constructor(memory: AsideMemory, account: string) {
    this.#memory = memory;
    this.#account = account;
  }

  take(bytes: number): boolean {
    return this.#memory.setAside(this.#account, bytes);
  }

  giveBack(bytes: number): void {
    this.#memory.takeUp(this.#account, bytes);
  }
}
