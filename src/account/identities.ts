// Who the `sub` of a third-party issuer is here: the account with that id, or the one it was linked to at first sight by a verified e-mail address.
import type { Sql } from '../store/postgres.js';
import { createUser, normaliseEmail } from './users.js';

export interface ExternalIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Verified by the issuer, or null. */
  readonly email: string | null;
}

export interface ExternalUser {
  readonly userId: string;
  readonly plan: string;
}

/** As ours are spelled. */
const USER_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The account of an identity, or null. At first sight it is the account with its verified address, unless that account's owner
 * only typed it; if there is none, one is made when `openFor` names a plan. After that the address counts no more: an issuer may
 * give it to somebody else.
 */
export async function findExternalUser(
  sql: Sql,
  identity: ExternalIdentity,
  openFor: { readonly plan: string } | null,
): Promise<ExternalUser | null> {
  const known = await findKnown(sql, identity);
  if (known !== null || identity.email === null) return known;
  const email = normaliseEmail(identity.email);
  if (openFor !== null) await createUser(sql, { email, name: '', passwordHash: null, plan: openFor.plan });
  // Two requests at first sight: the second finds the first one's link.
  await sql`
    INSERT INTO identities (issuer, subject, user_id)
    SELECT ${identity.issuer}, ${identity.subject}, id FROM users WHERE lower(email) = ${email} AND email_vouched
    ON CONFLICT DO NOTHING`;
  return await findKnown(sql, identity);
}

/** A link first; without one, a subject that is the id of an account is that account. */
async function findKnown(sql: Sql, { issuer, subject }: ExternalIdentity): Promise<ExternalUser | null> {
  const [row] = await sql<{ id: string; plan: string }[]>`
    SELECT id, plan FROM users WHERE id = coalesce(
      (SELECT user_id FROM identities WHERE issuer = ${issuer} AND subject = ${subject}),
      ${USER_ID.test(subject) ? subject : null}::uuid)`;
  return row === undefined ? null : { userId: row.id, plan: row.plan };
}
