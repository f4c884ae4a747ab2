// What Chromium sends when somebody opens the first page for the first time: the requests for files, byte for byte.
import type { Request } from 'playwright-core';
import { startBrowser } from '../test/dashboard/browser.js';

export interface VisitRequest {
  readonly path: string;
  /** As it goes over HTTP/1.1. */
  readonly bytes: Buffer;
  /** Of the answer, with its head. */
  readonly answerBytes: number;
}

/** Requests for files alone, in their order, the document first: what the page asks the API is no part of it. */
export async function recordFirstVisit(url: string): Promise<readonly VisitRequest[]> {
  const browser = await startBrowser();
  try {
    const { context, page } = await browser.person();
    const sent: Request[] = [];
    context.on('requestfinished', (request) => sent.push(request));
    await page.goto(url, { waitUntil: 'networkidle' });
    const visit = await Promise.all(sent.filter(isForFile).map(toVisitRequest));
    // What came from the browser's own cache was never sent, and has no header of a connection.
    const fetched = visit.filter(({ bytes }) => /^Host:/im.test(bytes.toString('latin1')));
    return fetched.sort((one, other) => Number(one.path !== '/') - Number(other.path !== '/'));
  } finally {
    await browser.close();
  }
}

function isForFile(request: Request): boolean {
  return ['document', 'script', 'stylesheet', 'image', 'font', 'other'].includes(request.resourceType());
}

async function toVisitRequest(request: Request): Promise<VisitRequest> {
  const path = new URL(request.url()).pathname;
  const headers = (await request.headersArray()).map(({ name, value }) => `${name}: ${value}\r\n`);
  const { responseHeadersSize, responseBodySize } = await request.sizes();
  return {
    path,
    bytes: Buffer.from(`${request.method()} ${path} HTTP/1.1\r\n${headers.join('')}\r\n`),
    answerBytes: responseHeadersSize + responseBodySize,
  };
}
