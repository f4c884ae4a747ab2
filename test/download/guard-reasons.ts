// The reasons with which the guard refuses a URL, in its words.
export const BLANK = 'blank URL';
export const CHARACTER = 'control character, white space or backslash in the URL';
export const SCHEME = 'scheme is not http or https';
export const MALFORMED = 'malformed URL';
export const CREDENTIALS = 'credentials in the URL';
export const PORT = 'port is not allowed';
export const NAME = 'malformed host name';
export const HOST = 'host is not allowed';
export const ADDRESS = 'address is not public';
