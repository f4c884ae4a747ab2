// What the dashboard API answers with, checked as it comes in: nothing else of the client trusts the wire.
import { z } from 'zod/mini';

/** Of a 204. */
export const Nothing = z.null();

export const User = z.object({
  id: z.string(),
  email: z.string(),
  name: z.string(),
  plan: z.string(),
  hourlyLimit: z.number(),
  role: z.enum(['user', 'operator']),
  creationDate: z.string(),
  /** Not of other accounts, nor of a sign-in. */
  twoFactor: z.optional(z.boolean()),
});
export type User = z.infer<typeof User>;

export const SignedIn = z.object({ expiresIn: z.number(), user: User });
export type SignedIn = z.infer<typeof SignedIn>;

export const Registration = z.object({ registration: z.enum(['open', 'closed']), passwordMail: z.boolean() });

export const Enrolment = z.object({ secret: z.string(), uri: z.string() });
export const Recovery = z.object({ recoveryCodes: z.array(z.string()) });

export const Quota = z.object({ limit: z.number(), remaining: z.number(), resetTime: z.number() });
export type Quota = z.infer<typeof Quota>;

export const Days = z.array(
  z.object({
    day: z.string(),
    clean: z.number(),
    infected: z.number(),
    noVerdict: z.number(),
    refused: z.number(),
    left: z.number(),
    failed: z.number(),
  }),
);
export type Days = z.infer<typeof Days>;

export const Hours = z.array(z.object({ hour: z.string(), used: z.number(), refused: z.number() }));
export type Hours = z.infer<typeof Hours>;

export const Counts = z.object({ infected: z.number(), clean: z.number() });
export type Counts = z.infer<typeof Counts>;

export const Months = z.array(z.object({ month: z.string(), infected: z.number(), clean: z.number() }));
export type Months = z.infer<typeof Months>;

const scanFields = {
  id: z.string(),
  filename: z.string(),
  scanDurationMillis: z.number(),
  infected: z.boolean(),
  virusName: z.nullable(z.string()),
  protocol: z.string(),
  env: z.string(),
  status: z.string(),
  error: z.nullable(z.string()),
  notices: z.array(z.string()),
  creationDate: z.string(),
  lastUpdate: z.string(),
  /** Null: no key, but somebody who was signed in. */
  key: z.nullable(z.object({ uuid: z.string(), name: z.string() })),
  url: z.nullable(z.string()),
};
export const Scan = z.object(scanFields);
export type Scan = z.infer<typeof Scan>;

export const ScanDetail = z.object({
  ...scanFields,
  /** Null without a verdict. */
  infected: z.nullable(z.boolean()),
  sizeInBytes: z.nullable(z.number()),
  sha256: z.nullable(z.string()),
  detectedType: z.nullable(z.string()),
  engine: z.nullable(z.string()),
  signatures: z.nullable(z.string()),
  metadata: z.nullable(z.string()),
});
export type ScanDetail = z.infer<typeof ScanDetail>;

export const ScanPage = z.object({
  content: z.array(Scan),
  page: z.number(),
  size: z.number(),
  totalElements: z.number(),
  totalPages: z.number(),
});
export type ScanPage = z.infer<typeof ScanPage>;

export const ScanResult = z.object({
  filename: z.string(),
  sizeInBytes: z.number(),
  scanDurationMillis: z.number(),
  infected: z.boolean(),
  virusName: z.nullable(z.string()),
});
export type ScanResult = z.infer<typeof ScanResult>;

export const scopes = ['scan', 'read'] as const;
export type Scope = (typeof scopes)[number];
export const Key = z.object({
  uuid: z.string(),
  name: z.string(),
  value: z.string(),
  creationDate: z.string(),
  lastUse: z.nullable(z.string()),
  expires: z.nullable(z.string()),
  hourlyLimit: z.nullable(z.number()),
  scopes: z.array(z.enum(scopes)),
});
export type Key = z.infer<typeof Key>;
export const Keys = z.array(Key);
export const KeyUsage = z.object({
  days: z.array(z.object({ day: z.string(), clean: z.number(), infected: z.number(), failed: z.number() })),
});

export const Sessions = z.array(
  z.object({
    id: z.string(),
    userAgent: z.string(),
    ipAddress: z.string(),
    creationDate: z.string(),
    lastUse: z.string(),
    current: z.boolean(),
  }),
);
export type Session = z.infer<typeof Sessions>[number];

const Price = z.object({ amount: z.number(), currency: z.string(), interval: z.nullable(z.string()) });
export type Price = z.infer<typeof Price>;
export const Billing = z.object({
  plan: z.string(),
  hourlyLimit: z.number(),
  status: z.string(),
  currentPeriodEnd: z.nullable(z.string()),
  cancelAtPeriodEnd: z.boolean(),
  plans: z.array(
    z.object({
      name: z.string(),
      hourlyLimit: z.number(),
      price: z.nullable(Price),
      pricePending: z.optional(z.boolean()),
    }),
  ),
});
export type Billing = z.infer<typeof Billing>;
export const Redirect = z.object({ url: z.string() });

export const Version = z.object({
  sluice: z.string(),
  engine: z.nullable(z.string()),
  standsIn: z.optional(z.boolean()),
  signatures: z.nullable(
    z.object({ count: z.number(), built: z.nullable(z.string()), dailyAgeHours: z.nullable(z.number()) }),
  ),
});
export type Version = z.infer<typeof Version>;

/** Bodies of failures; what isn't one of ours has neither. */
export const ErrorBody = z.object({
  error: z.string(),
  message: z.optional(z.string()),
  resetTime: z.optional(z.number()),
});
