// How many scan threads are taken and given up, and how many there are to be for that: the set, and a few beside it.

export interface Occupancy {
  /** Of the set; below 0: threads beside it are taken. */
  readonly free: number;
  /** Beside the set one can be taken. */
  readonly hasStandIn: boolean;
  /** Taken beside the set. */
  readonly standIns: number;
  /** How many are wanted now, with those that are given up. */
  wanted(hasSpare: boolean): number;
  take(): void;
  release(): void;
  /** Of one that is taken: another one comes in its place. */
  giveUp(): void;
  /** One that is given up has come back. */
  endGivenUp(): void;
}

export function createOccupancy(count: number, standInsMax: number): Occupancy {
  let taken = 0;
  let givenUp = 0;

  /** At most as many again as the set has are replaced, since each that hangs costs a core. */
  const setSize = (): number => Math.max(0, Math.min(count, 2 * count - givenUp));

  return {
    get free() {
      return setSize() - taken;
    },
    get hasStandIn() {
      return taken < setSize() + standInsMax;
    },
    get standIns() {
      return Math.max(0, taken - setSize());
    },
    wanted(hasSpare) {
      const set = setSize();
      return givenUp + Math.min(set + standInsMax, Math.max(set, taken) + (hasSpare ? 1 : 0));
    },
    take() {
      taken += 1;
    },
    release() {
      taken -= 1;
    },
    giveUp() {
      taken -= 1;
      givenUp += 1;
    },
    endGivenUp() {
      givenUp -= 1;
    },
  };
}
