// Every fixed bound of the service, with its unit and the reason for it; bounds an operator may move are in config.ts.

/** Largest content that is scanned: 10 MB as the contract defines it. One byte more is refused. */
export const CONTENT_LIMIT_BYTES = 10 * 1024 * 1024;

/** Parts of one multipart body; browsers send a handful, a form of thousands only costs us time. */
export const MULTIPART_PARTS_MAX = 16;
/** Header block of one part; a filename of 255 characters in RFC 5987 form stays far below. */
export const MULTIPART_PART_HEADER_BYTES = 16 * 1024;
/** Bytes of one field that is not a file; URLs over 8 KB are refused by most servers anyway. */
export const MULTIPART_FIELD_BYTES = 8 * 1024;
/** A body that is only to name a URL, as JSON or as a form without parts: the longest field, percent-encoded. */
export const URL_BODY_BYTES = 32 * 1024;
/** What a client may say of a scan, to be kept with it. */
export const METADATA_BYTES = 1024;
/** Characters of a scan's URL that are kept with it. */
export const URL_KEPT_CHARACTERS = 2048;
/** RFC 2046 section 5.1.1: a boundary has 1 to 70 characters. */
export const MULTIPART_BOUNDARY_MAX = 70;
/** Text before the first delimiter, which RFC 2046 tells us to ignore, with blanks and line ends after the last one. */
export const MULTIPART_MARGIN_BYTES = 16 * 1024;

/** What a body may have around the file's bytes: beyond it a declared length proves that a limit is exceeded. */
export const MULTIPART_ENVELOPE_BYTES =
  MULTIPART_PARTS_MAX * (MULTIPART_PART_HEADER_BYTES + MULTIPART_FIELD_BYTES + MULTIPART_BOUNDARY_MAX + 8) +
  2 * MULTIPART_MARGIN_BYTES;

/** An upload that declares too much is refused; its filename, which is for the history alone, is waited for so long. */
export const REFUSED_NAME_MS = 1_000;

/** Characters of a filename that are kept, by the contract. */
export const FILENAME_MAX_CHARACTERS = 255;

/** Of what an error says of its occurrence, names that a client has sent among it: the longest of ours stays far below. */
export const ERROR_DETAIL_CHARACTERS = 500;

/** Request line and headers together: a 4 KB cookie with a JWT fits, hostile blocks don't. */
export const HTTP_HEADER_BLOCK_BYTES = 16 * 1024;

/** A JSON body of the dashboard API: the longest name, address and passwords together stay below. */
export const JSON_BODY_BYTES = 8 * 1024;
/** Of chunks that come at once so many may be smaller than the next number says, and more as others are larger. Beyond that the connection ends: each costs a microsecond of the serving thread. */
export const SMALL_CHUNKS = 256;
export const SMALL_CHUNK_BYTES = 32;
/** A webhook's body: Stripe's largest events stay under it. */
export const WEBHOOK_BODY_BYTES = 256 * 1024;
/** Until a JSON body of the dashboard API is whole. */
export const JSON_BODY_MS = 15_000;
/** Bodies in memory that are no uploads, and what arrives of uploads before it is known who sends them: of all connections together. */
export const BODIES_BYTES = 24 * 1024 * 1024;
/** The part of BODIES_BYTES that requests can't use before their caller is known: three thousand JSON bodies of users who are signed in. */
export const BODIES_RESERVE_BYTES = 8 * 1024 * 1024;

/** At a stop: who has begun to connect is taken in for so long, a round trip of most networks. */
export const HANDSHAKE_MS = 50;
/** At a stop: who has connected so long ago is about to send a request, and is waited for; an older connection without one is idle. */
export const SILENCE_MS = 250;

/** After an early answer: bytes of the refused body that are still read and dropped, so that clients that read last get it. */
export const DRAIN_BYTES = 256 * 1024 * 1024;
/** After an early answer: time for which the refused body is still read and dropped. */
export const DRAIN_MS = 60_000;
/** How long the rest is read of an upload whose time was over: its client sends slowly, and would wait as long for the end of its answer. */
export const DRAIN_LATE_MS = 1_000;
/** A client that sends nothing for so long has seen the answer and waits for its end. */
export const DRAIN_SILENCE_MS = 250;
/** All refused bodies together, a second: reading and dropping them takes some percent of a core. */
export const DRAIN_BYTES_PER_SECOND = 64 * 1024 * 1024;
/** So much of refused bodies may come at once: a body of the contract's largest size has its answer without waiting. */
export const DRAIN_BURST_BYTES = 16 * 1024 * 1024;
/** What is no longer than this is read at once: a socket that waits holds nearly as much, over node:http. */
export const DRAIN_SHORT_BYTES = 256 * 1024;
/** Of longer ones so many sockets are read so often, each once, which is half a megabyte at most. */
export const DRAIN_TURN_READS = 2;
/** From one such turn to the next. */
export const DRAIN_TURN_MS = 5;
/** The rest of a body is read also behind its whole answer where it is no larger than this; a larger one isn't, and its connection ends. */
export const DRAIN_REST_BYTES = 64 * 1024;

/** Most answers are there before that, or half of it; the socket of a later one is not read until it is given. */
export const REST_AFTER_MS = 20;
/** A scan that is refused since too many wait has its answer so late, or up to 20 ms later: a client that asks again at once would take the time from what is taken. */
export const REFUSAL_MS = 30;
/** Units that an account has back in an hour for requests that never arrived whole: a bad line breaks fewer, and memory is held for each. */
export const UNFINISHED_REFUNDS_PER_HOUR = 60;

/** Requests of one account, a second, that take no unit; so many may also come at once. */
export const READS_PER_SECOND = 20;

/** Redirects that a download follows; browsers follow 20, file servers need one or two. */
export const REDIRECTS_MAX = 5;
/** Header block of an origin's response, each hop: as much as we take ourselves. */
export const ORIGIN_HEADER_BYTES = 16 * 1024;
/** What comes around a body may be as much as the body, and so much more: early hints, sizes of chunks, what is said behind them. */
export const ORIGIN_AROUND_BYTES = 256 * 1024;
/** Waiting for all answers of the DNS about one host. */
export const ORIGIN_DNS_MS = 5_000;
/** One question to one DNS server, before it is asked again or the next one is. */
export const ORIGIN_DNS_TRY_MS = 1_500;
/** So often each server is asked. */
export const ORIGIN_DNS_TRIES = 2;
/** Until the connection stands, TLS included, over all addresses of the host. */
export const ORIGIN_CONNECT_MS = 5_000;
/** From the request to the end of the response's headers. */
export const ORIGIN_HEADERS_MS = 10_000;
/** Silence between two pieces of a body. */
export const ORIGIN_IDLE_MS = 10_000;
/** Addresses of one host, all of which are checked; one with more is refused. An answer of the DNS has room for thousands, which took the serving thread tens of milliseconds. */
export const ORIGIN_ADDRESSES = 256;
/** Those of them that are dialled, in turn. */
export const ORIGIN_ADDRESSES_DIALLED = 8;

/** Downloads of one process at a time, where the limit of open files has room for them; the next one gets a 503. */
export const DOWNLOADS_MAX = 256;

/** The share of the memory of uploads, and of that of downloads, that one account leaves to others. */
export const MEMORY_RESERVE_SHARE = 0.25;

/** Uploads up to this size find room in memory also while large ones wait for theirs. */
export const SMALL_UPLOAD_BYTES = 1024 * 1024;

/** What one connection of clamd's protocol or of ICAP has sent together is taken so far before others have their turn: commands or requests, which cost up to 50 microseconds each. */
export const PIPELINED_AT_ONCE = 16;
/** Lines, chunks and the like that count as one of these: each costs up to a microsecond. */
export const PARSED_AT_ONCE = 32;

/** Time in each turn of the event loop for all connections of one such protocol together that have sent more than that. One more may begin. */
export const PUT_OFF_MS = 1;

/** Connections of clamd's protocol, of one process, where the limit of open files has room for them; the next one is closed at once. */
export const CLAMD_CONNECTIONS = 10_000;
/** So many of them, but a quarter at most, are kept for the UNIX socket where there is a port as well: a crowd at the port can't shut out the programs of the machine. */
export const CLAMD_SOCKET_CONNECTIONS = 200;
/** One command line: a path of Linux (4096 bytes) and its word. */
export const CLAMD_COMMAND_BYTES = 4096 + 64;
/** From the end of a command or an answer to the end of the next command: clamd's CommandReadTimeout. */
export const CLAMD_COMMAND_MS = 30_000;
/** An old command without a newline is over when nothing more has come for so long. */
export const CLAMD_OLD_COMMAND_MS = 100;
/** Streams of one connection that wait for their answers, beside the one that arrives. */
export const CLAMD_SCANS = 16;
/** Answers of one connection that nobody has read; more are not made meanwhile. */
export const CLAMD_UNREAD_BYTES = 64 * 1024;
/** Commands of clamd's protocol that look at files of one folder of CLAMD_PATHS, at a time in one process. A file system that hangs holds them. So it is with files that come along by FILDES, of each file system. */
export const CLAMD_FILE_COMMANDS = 16;
/** Such commands that wait for that. */
export const CLAMD_FILE_COMMANDS_WAITING = 128;
/** Questions of these commands to the file system, at a time, of each folder. */
export const CLAMD_FILE_CALLS = 2;
/** File systems that files come along from at a time, and don't wait for each other; those of further ones wait for each other. */
export const CLAMD_FILE_SYSTEMS = 3;
/** Threads for files, of each folder and file system: for these questions, for a closing, and for where the folder is. Those of everything else are beside them. */
export const CLAMD_FILE_THREADS = 4;
/** Where a path leads out of its own folder, the others have so long to say where they are. */
export const CLAMD_FOLDER_MS = 1_000;
/** Descriptors for them: files that came along and wait, files that are read, folders on the way. */
export const CLAMD_FILE_DESCRIPTORS = 384;
/** Contents of asynchronous scans that arrive at once, in one process: each has a descriptor, and up to a megabyte that waits for the disk. */
export const ARRIVING_CONTENTS = 64;
/** Requests that wait for such a place. What has arrived of them is in the memory of uploads; the rest waits in the kernel. */
export const ARRIVING_WAITING = 4096;
/** Time that the disk has for one step with such a content, for example a write; at most UPLOAD_TIMEOUT_MS. After it the client gets a 503. */
export const DISK_ANSWER_MS = 30_000;
/** Open files that have come along and are not closed. Beyond them none is taken: its command has an error. */
export const CLAMD_FILES_ALONG = 256;
/** Those of one connection that are being closed, which may take long: with more of them it is not read. */
export const CLAMD_CLOSINGS = 4;
/** Files that MULTISCAN has in the scan queue at once. */
export const CLAMD_MULTISCAN_FILES = 4;
/** Folders within each other: clamd's MaxDirectoryRecursion. */
export const CLAMD_FOLDER_DEPTH = 15;
/** What a client still sends after its answer is read and dropped for so long. */
export const CLAMD_CLOSE_MS = 5_000;

/** Connections of ICAP, of one process, where the limit of open files has room for them; the next one is closed at once. OPTIONS says the number. */
export const ICAP_CONNECTIONS = 10_000;
/** Request line and headers of ICAP's own. */
export const ICAP_HEADER_BYTES = 16 * 1024;
/** The encapsulated headers of request and response: Squid takes 64 KB of each from others. */
export const ICAP_SECTION_BYTES = 128 * 1024;
/** Lines of ICAP's own headers: each costs more memory than it has bytes. */
export const ICAP_HEADER_LINES = 200;
/** Encapsulated headers of all connections of a process that have no answer, together; beyond it 503. */
export const ICAP_SECTIONS_BYTES = 32 * 1024 * 1024;
/** Encapsulated headers up to this size are not counted there. */
export const ICAP_SMALL_SECTION_BYTES = 8 * 1024;
/** The line with the size of a chunk. */
export const ICAP_CHUNK_LINE_BYTES = 256;
/** Headers behind a body, which are read and dropped. */
export const ICAP_TRAILER_BYTES = 8 * 1024;
/** What clients are asked to send before they wait: most small bodies are whole with it. */
export const ICAP_PREVIEW_BYTES = 4096;
/** For how long a client may keep what OPTIONS said. */
export const ICAP_OPTIONS_SECONDS = 300;
/** From an answer to the next request. Proxies keep their connections for a minute or two. */
export const ICAP_IDLE_MS = 120_000;
/** From the first byte of a request to the end of its headers. */
export const ICAP_HEAD_MS = 30_000;
/** What a client still sends behind its last answer is read and dropped for so long; the rest of a body longer, as with HTTP. */
export const ICAP_CLOSE_MS = 5_000;
/** Answers of one connection that nobody has read; nothing more is taken meanwhile. */
export const ICAP_UNREAD_BYTES = 256 * 1024;
/** Parts of a form that is uploaded by ICAP. With more it can't be looked at as a whole. */
export const ICAP_FORM_PARTS = 1_000;
/** Files among them, likewise: each is a scan of its own. */
export const ICAP_FORM_FILES = 100;
/** A body that is sent back is copied out of the memory of contents in pieces of this size. */
export const ICAP_PIECE_BYTES = 64 * 1024;
