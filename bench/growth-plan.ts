// What `npm run bench:growth` measures, step by step, and how long that takes.

export const growing = ['scans', 'mixed', 'accounts', 'rows', 'signatures', 'connections'] as const;
export type Growing = (typeof growing)[number];

interface GrowthPlan {
  readonly rounds: number;
  readonly roundSeconds: number;
  readonly warmUpSeconds: number;
  /** Of the open loop, which doesn't count its first half second (ACCEPT_SECONDS in load.c). */
  readonly paceSeconds: number;
  readonly steps: Readonly<Record<Growing, readonly number[]>>;
}

const WHOLE: GrowthPlan = {
  rounds: 3,
  roundSeconds: 2,
  warmUpSeconds: 3,
  paceSeconds: 3,
  steps: {
    scans: [10_000, 100_000, 1_000_000],
    mixed: [10_000, 100_000, 1_000_000],
    accounts: [1, 10, 100, 1_000],
    rows: [0, 10_000, 100_000, 1_000_000],
    signatures: [0, 10_000, 100_000, 1_000_000],
    connections: [0, 1_000, 4_000, 8_000],
  },
};

const QUICK: GrowthPlan = {
  rounds: 1,
  roundSeconds: 0.5,
  warmUpSeconds: 0.5,
  paceSeconds: 0.8,
  steps: {
    scans: [1_000, 10_000],
    // Three minutes have no room for them.
    mixed: [],
    accounts: [1, 100],
    rows: [0, 10_000],
    signatures: [0, 10_000],
    connections: [0, 1_000],
  },
};

export function growthPlan(quick: boolean): GrowthPlan {
  return quick ? QUICK : WHOLE;
}
