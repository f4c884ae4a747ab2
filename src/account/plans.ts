// Plans: how many scans an hour each of them has.

/** A plan that the configuration no longer has counts as the smallest that it has. */
export function createPlanLimits(plans: ReadonlyMap<string, number>): (plan: string) => number {
  const smallest = Math.min(...plans.values());
  return (plan) => plans.get(plan) ?? smallest;
}
