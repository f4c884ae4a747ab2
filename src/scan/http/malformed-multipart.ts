// Why a multipart body is refused; the text goes to the client.

export class MalformedMultipart extends Error {}
