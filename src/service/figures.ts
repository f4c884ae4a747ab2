// The figures of the service in the registry: each is asked for when somebody asks for it, and kept nowhere else.
import { Gauge, type Registry } from 'prom-client';

export interface Sample {
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  /** Of a part of a histogram. */
  readonly metricName?: string;
}

/** One figure, or one for each set of labels; null: it is absent. */
type Read<Value> = () => Value | null | Promise<Value | null>;

export class Figures {
  readonly #registry: Registry;

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  gauge(name: string, help: string, read: Read<number | readonly Sample[]>): void {
    new Figure(this.#registry, { name, help, type: 'gauge' }, read);
  }

  /** 1 or 0. */
  flag(name: string, help: string, read: () => boolean): void {
    this.gauge(name, help, () => Number(read()));
  }

  counter(name: string, help: string, read: Read<number | readonly Sample[]>): void {
    new Figure(this.#registry, { name, help, type: 'counter' }, read);
  }

  histogram(name: string, help: string, read: (name: string) => readonly Sample[]): void {
    new Figure(this.#registry, { name, help, type: 'histogram' }, () => read(name));
  }
}

interface Head {
  readonly name: string;
  readonly help: string;
  readonly type: 'gauge' | 'counter' | 'histogram';
}

class Figure extends Gauge<string> {
  readonly #head: Head;
  readonly #read: Read<number | readonly Sample[]>;

  constructor(registry: Registry, head: Head, read: Read<number | readonly Sample[]>) {
    super({ name: head.name, help: head.help, registers: [registry] });
    this.#head = head;
    this.#read = read;
  }

  /** What the registry asks for, before it asks for what the library keeps itself. */
  async getForPromString() {
    const read = (await this.#read()) ?? [];
    return { ...this.#head, values: typeof read === 'number' ? [{ labels: {}, value: read }] : read };
  }
}
