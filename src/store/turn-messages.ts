// Postgres' wire protocol, as far as it takes to know whose turn it is: messages that will be answered with ReadyForQuery, and
// these answers (https://www.postgresql.org/docs/current/protocol-message-formats.html).

/** One byte for the type, which the first message of a connection has not, and four for the length, themselves included. */
const TYPE_BYTES = 1;
const LENGTH_BYTES = 4;
const SYNC = 0x53;
const QUERY = 0x51;
const FUNCTION_CALL = 0x46;
const READY_FOR_QUERY = 0x5a;

export interface MessageReader {
  read(bytes: Buffer): void;
  /** The bytes so far end within a message, or before what asks for an answer. */
  readonly isInside: boolean;
}

/** Cuts a stream into messages; tells of each, once it is whole, its type (null: the first one's) and the first byte of its body. */
function createReader(hasStartup: boolean, onMessage: (type: number | null, firstByte: number) => void) {
  let isFirst = hasStartup;
  let header = Buffer.alloc(0);
  /** Bytes of the message's body that are still to come. */
  let left = 0;
  let type: number | null = null;
  let firstByte = 0;

  return {
    get isInside() {
      return header.length > 0 || left > 0;
    },
    read(bytes: Buffer): void {
      let at = 0;
      while (at < bytes.length) {
        if (left > 0) {
          const taken = Math.min(left, bytes.length - at);
          left -= taken;
          at += taken;
          if (left === 0) onMessage(type, firstByte);
          continue;
        }
        const typeBytes = isFirst ? 0 : TYPE_BYTES;
        // One byte more than the header, where there is a body: it is what ReadyForQuery says.
        const wanted = typeBytes + LENGTH_BYTES + 1;
        const taken = Math.min(wanted - header.length, bytes.length - at);
        const had = header.length;
        header = Buffer.concat([header, bytes.subarray(at, at + taken)]);
        if (header.length < typeBytes + LENGTH_BYTES) return;
        const bodyBytes = header.readUInt32BE(typeBytes) - LENGTH_BYTES;
        if (bodyBytes > 0 && header.length < wanted) return;
        const headBytes = typeBytes + LENGTH_BYTES + Math.min(1, bodyBytes);
        at += headBytes - had;
        type = isFirst ? null : (header[0] ?? 0);
        firstByte = bodyBytes > 0 ? (header[typeBytes + LENGTH_BYTES] ?? 0) : 0;
        left = Math.max(0, bodyBytes - 1);
        header = Buffer.alloc(0);
        isFirst = false;
        if (left === 0) onMessage(type, firstByte);
      }
    },
  };
}

/** `onRequest`: a message that ends in one ReadyForQuery. */
export function createFrontendReader(onRequest: () => void): MessageReader {
  let isOpen = false;
  const reader = createReader(true, (type) => {
    isOpen = !(type === null || type === SYNC || type === QUERY || type === FUNCTION_CALL);
    if (!isOpen) onRequest();
  });
  return {
    read: reader.read,
    get isInside() {
      return isOpen || reader.isInside;
    },
  };
}

/** `onReady` gets the status of the transaction: I (none), T or E (inside one, a failed one). */
export function createBackendReader(onReady: (status: string) => void): MessageReader {
  return createReader(false, (type, firstByte) => {
    if (type === READY_FOR_QUERY) onReady(String.fromCharCode(firstByte));
  });
}
