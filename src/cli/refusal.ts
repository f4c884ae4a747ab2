// What a command says when it does nothing.

/** Why a command can't be carried out though its usage is right; printed as it is. */
export class Refusal extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'Refusal';
  }
}
