// Every fixed bound of the service, with its unit and the reason for it; bounds an operator may move are in config.ts.

/** Largest content that is scanned: 10 MB as the contract defines it. One byte more is refused. */
export const CONTENT_LIMIT_BYTES = 10 * 1024 * 1024;

/** Parts of one multipart body; browsers send a handful, a form of thousands only costs us time. */
export const MULTIPART_PARTS_MAX = 16;
/** Header block of one part; a filename of 255 characters in RFC 5987 form stays far below. */
export const MULTIPART_PART_HEADER_BYTES = 16 * 1024;
/** Bytes of one field that is not a file; URLs over 8 KB are refused by most servers anyway. */
export const MULTIPART_FIELD_BYTES = 8 * 1024;
/** RFC 2046 section 5.1.1: a boundary has 1 to 70 characters. */
export const MULTIPART_BOUNDARY_MAX = 70;
/** Text before the first and after the last delimiter, which RFC 2046 lets a client send and tells us to ignore. */
export const MULTIPART_MARGIN_BYTES = 16 * 1024;

/** What a body may have around the file's bytes: beyond it a declared length proves that a limit is exceeded. */
export const MULTIPART_ENVELOPE_BYTES =
  MULTIPART_PARTS_MAX * (MULTIPART_PART_HEADER_BYTES + MULTIPART_FIELD_BYTES + MULTIPART_BOUNDARY_MAX + 8) +
  2 * MULTIPART_MARGIN_BYTES;

/** Characters of a filename that are kept, by the contract. */
export const FILENAME_MAX_CHARACTERS = 255;

/** Request line and headers together: a 4 KB cookie with a JWT fits, hostile blocks don't. */
export const HTTP_HEADER_BLOCK_BYTES = 16 * 1024;

/** A JSON body of the dashboard API, or a webhook's: ours are far below, and Stripe's largest events stay under it. */
export const JSON_BODY_BYTES = 256 * 1024;
export const JSON_BODY_MS = 15_000;

/** After an early answer: bytes of the refused body that are still read and dropped, so that clients that read last get it. */
export const DRAIN_BYTES = 256 * 1024 * 1024;
/** The same, in time. */
export const DRAIN_MS = 60_000;
/** A client that sends nothing for so long has seen the answer and waits for its end. */
export const DRAIN_SILENCE_MS = 250;

/** Uploads up to this size find room in memory also while large ones wait for theirs. */
export const SMALL_UPLOAD_BYTES = 1024 * 1024;
