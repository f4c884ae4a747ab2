// Numbers, sizes, times and durations as people read them, in the language of the browser and the zone of the viewer.

const numbers = new Intl.NumberFormat();
const instants = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const days = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const clocks = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const zonedClocks = new Intl.DateTimeFormat(undefined, { hour: 'numeric', minute: '2-digit', timeZoneName: 'short' });
/** A month of the service is one of UTC, wherever the viewer is. */
const months = new Intl.DateTimeFormat(undefined, { month: 'short', year: '2-digit', timeZone: 'UTC' });
/** So is a day. */
const dayNames = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });
const shortDays = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });

const DAY_MS = 86_400_000;
/** From so many seconds on. */
const UNITS: readonly (readonly [from: number, unit: string, seconds: number])[] = [
  [172_800, 'days', 86_400],
  [5_400, 'h', 3_600],
  [90, 'min', 60],
];
/** The currencies of which Stripe's smallest unit is no hundredth (https://docs.stripe.com/currencies#zero-decimal). Browsers have others: theirs for the forint is none. */
const DIGITS: readonly (readonly [digits: number, currencies: string])[] = [
  [0, 'BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF UGX VND VUV XAF XOF XPF'],
  [3, 'BHD JOD KWD OMR TND'],
];

export function number(value: number): string {
  return numbers.format(value);
}

/** The service writes UTC without saying so. */
export function instantOf(text: string): Date {
  return new Date(`${text}Z`);
}

/** What is written from the right is a run of its own in the lines of these pages, which begin at the left: its day would come last otherwise. */
function ownRun(text: string): string {
  return /[\u0590-\u08ff]/.test(text) ? `\u2068${text}\u2069` : text;
}

export function instant(date: Date): string {
  return ownRun(instants.format(date));
}

export function day(date: Date): string {
  return ownRun(days.format(date));
}

export function clock(date: Date): string {
  return ownRun(clocks.format(date));
}

/** Of times of one day, each its own: where clocks go back, an hour is there twice. */
export function clocksOf(dates: readonly Date[]): string[] {
  const names = dates.map(clock);
  return dates.map((date, at) => {
    const name = names[at] ?? '';
    return names.filter((other) => other === name).length > 1 ? ownRun(zonedClocks.format(date)) : name;
  });
}

export function month(text: string): string {
  return ownRun(months.format(new Date(`${text}-01T00:00:00Z`)));
}

/** `YYYY-MM-DD` */
export function dayName(text: string): string {
  return ownRun(dayNames.format(new Date(`${text}T00:00:00Z`)));
}

export function shortDay(text: string): string {
  return ownRun(shortDays.format(new Date(`${text}T00:00:00Z`)));
}

export function size(bytes: number): string {
  if (bytes < 1024) return `${number(bytes)} B`;
  if (bytes < 1024 * 1024) return `${number(Math.round(bytes / 102.4) / 10)} KB`;
  if (bytes < 1024 ** 3) return `${number(Math.round(bytes / 104_857.6) / 10)} MB`;
  return `${number(Math.round(bytes / 107_374_182.4) / 10)} GB`;
}

/** In the largest unit of which there are two, or nearly: rounded up, for who waits. */
export function duration(seconds: number): string {
  const [, unit, unitSeconds] = UNITS.find(([from]) => seconds >= from) ?? [0, 's', 1];
  return `${number(Math.ceil(seconds / unitSeconds))} ${unit}`;
}

/** `amount`: in the smallest unit of the currency, as Stripe has it. */
export function price(amount: number, currency: string): string {
  const code = currency.toUpperCase();
  const digits = DIGITS.find(([, currencies]) => currencies.includes(code))?.[0] ?? 2;
  const value = amount / 10 ** digits;
  // Browsers leave parts away where nobody pays with them, as of the forint; here they may be part of the price.
  const parts = Number.isInteger(value) ? {} : { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat(undefined, { style: 'currency', currency: code, ...parts }).format(value);
}

/** `YYYY-MM-DDThh:mm` in the viewer's zone, as a field of the browser has it. */
export function localMinute(date: Date): string {
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The UTC day so many days before now, as the service writes days. */
export function utcDay(daysAgo: number, nowMs: number): string {
  return new Date(nowMs - daysAgo * DAY_MS).toISOString().slice(0, 10);
}
