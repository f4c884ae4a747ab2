// The socket below the driver of Postgres. A proxy without a server behind it takes a connection and ends it: the driver would connect again at once, hundreds of times a second, and
// its query would wait. As an error the query ends, and the driver waits before it connects again.
import { Socket } from 'node:net';

/** What the driver says of the place. */
interface Place {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** Of a UNIX socket; false: none. */
  readonly path: string | false;
}

export function openDriverSocket({ host: [host = ''], port: [port = 0], path }: Place): Socket {
  // The driver reads the host for the name in TLS.
  const socket = Object.assign(new Socket(), { host, port });
  socket.on('end', () => {
    if (socket.bytesRead > 0) return;
    const error = new Error('The connection was closed before Postgres answered');
    socket.destroy(Object.assign(error, { code: 'ECONNRESET' }));
  });
  return path === false ? socket.connect(port, host) : socket.connect(path);
}
