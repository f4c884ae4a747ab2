// Who the `sub` of a third-party issuer is here: found by issuer and subject; linked at first sight by a verified e-mail address.
import type { Sql } from '../store/postgres.js';
import { createUser, normaliseEmail } from './users.js';

export interface ForeignIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Verified by the issuer, or null. */
  readonly email: string | null;
}

export interface ForeignUser {
  readonly userId: string;
  readonly plan: string;
}

/**
 * The account of an identity, or null. At first sight it is the account with its verified address; if there is none, one is made
 * when `openFor` names a plan. After that the address counts no more: an issuer may give it to somebody else.
 */
export async function findForeignUser(
  sql: Sql,
  identity: ForeignIdentity,
  openFor: { readonly plan: string } | null,
): Promise<ForeignUser | null> {
  const linked = await findLinked(sql, identity);
  if (linked !== null || identity.email === null) return linked;
  const email = normaliseEmail(identity.email);
  if (openFor !== null) await createUser(sql, { email, name: '', passwordHash: null, plan: openFor.plan });
  // Two requests at first sight: the second finds the first one's link.
  await sql`
    INSERT INTO identities (issuer, subject, user_id)
    SELECT ${identity.issuer}, ${identity.subject}, id FROM users WHERE lower(email) = ${email}
    ON CONFLICT DO NOTHING`;
  return await findLinked(sql, identity);
}

async function findLinked(sql: Sql, { issuer, subject }: ForeignIdentity): Promise<ForeignUser | null> {
  const [row] = await sql<{ id: string; plan: string }[]>`
    SELECT u.id, u.plan FROM identities i JOIN users u ON u.id = i.user_id
    WHERE i.issuer = ${issuer} AND i.subject = ${subject}`;
  return row === undefined ? null : { userId: row.id, plan: row.plan };
}
