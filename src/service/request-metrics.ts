// What is counted of each HTTP request, in plain numbers, as of scans.
import { Counter, type Registry } from 'prom-client';

export class RequestMetrics {
  /** By route, then by status; 0: the client left before its answer. */
  readonly #counts = new Map<string, Map<number, number>>();

  constructor(registry: Registry) {
    const counts = this.#counts;
    new Counter({
      name: 'sluice_http_requests_total',
      help: 'HTTP requests that have ended, by route and status. Route none: there is no such route; status gone: the client left before its answer.',
      labelNames: ['route', 'status'] as const,
      registers: [registry],
      collect() {
        this.reset();
        for (const [route, byStatus] of counts) {
          for (const [status, count] of byStatus) this.inc({ route, status: status === 0 ? 'gone' : status }, count);
        }
      },
    });
  }

  /** Status null: the client went away before its answer was out. */
  readonly answered = (route: string, status: number | null): void => {
    let byStatus = this.#counts.get(route);
    if (byStatus === undefined) {
      byStatus = new Map();
      this.#counts.set(route, byStatus);
    }
    byStatus.set(status ?? 0, (byStatus.get(status ?? 0) ?? 0) + 1);
  };
}
