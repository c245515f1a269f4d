// Requests to the server that the page came from.

/** The server refused the request. The message is meant for the reader. */
export class Refused extends Error {
  constructor(status, line) {
    super(line);
    this.status = status;
  }
}

/** The server did not answer or failed, or is one of another project. The same request may succeed later. */
export class Gone extends Error {}

const TIMEOUT = 60_000;
const SOON = 5000;
const LOCKED = 401; // a server that was started again has another access token: its address must be opened once
const PROJECT = "X-Tagtrace-Project";
const GONE = "The server does not answer. Decisions are kept in this page and sent when tagtrace review is running again.";
const OTHER =
  "Another project, or another audit of this one, is open at this address now. Decisions are kept in this page and sent only to their own project.";
/** The fingerprint of the project that this page belongs to. */
export const project = document.querySelector('meta[name="project"]').content;
let token = document.querySelector('meta[name="csrf"]').content;
let seen = () => {};
let reviewer = null;
const begun = new Map();

/** Send requests under a reviewer name other than the server's default. */
export function actAs(name) {
  reviewer = name;
}

/** `action(problem)` is called after every request: "" if the server of this project answered, or what is wrong. */
export function watch(action) {
  seen = action;
}

export function get(path, parameters = {}, signal = undefined) {
  const address = addressOf(path, parameters);
  const early = begun.get(address);
  begun.delete(address);
  return early ?? ask(address, { signal });
}

/** Send a request early: the next `get` for the same address uses its answer. */
export function begin(path, parameters = {}) {
  const address = addressOf(path, parameters);
  const answer = ask(address, {});
  answer.catch(() => {}); // the caller of `get` handles the error
  begun.set(address, answer);
  setTimeout(() => begun.delete(address), SOON);
}

function addressOf(path, parameters) {
  const query = new URLSearchParams(parameters).toString();
  return `/api/${path}${query ? `?${query}` : ""}`;
}

export async function post(path, body) {
  const sent = token;
  const send = () =>
    ask(`/api/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Tagtrace": token },
      body: JSON.stringify(body),
    });
  try {
    return await send();
  } catch (error) {
    if (error.status !== 403) throw error;
    if (token === sent) await renewToken(); // another request may have done so meanwhile
    if (token === sent) throw error;
    return send();
  }
}

/** Read the current token from the page, because a server that was started again expects another one. */
async function renewToken() {
  const page = await fetch("/findings", { headers: { [PROJECT]: project }, cache: "no-store" }).catch(() => null);
  if (page?.status === 409) return; // another project is open: the request that comes next says so
  if (!page?.ok) throw new Gone("the server does not answer");
  token = /<meta name="csrf" content="([\w-]+)">/.exec(await page.text())?.[1] ?? token;
}

async function ask(address, options) {
  const limit = AbortSignal.timeout(TIMEOUT);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  let answer;
  try {
    const headers = { ...options.headers, [PROJECT]: project, ...(reviewer ? { "X-Reviewer": encodeURIComponent(reviewer) } : {}) };
    answer = await fetch(address, { ...options, headers, signal, cache: "no-store" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    seen(GONE);
    throw new Gone(limit.aborted ? "the server did not answer in time" : "the server does not answer");
  }
  const content = await answer.json().catch(() => null);
  const isOther = answer.headers.has(PROJECT);
  seen(isOther ? OTHER : "");
  if (isOther) throw new Gone(OTHER);
  if (answer.status >= 500 || answer.status === LOCKED) throw new Gone(content?.error ?? `the server failed (${answer.status})`);
  if (answer.ok && content === null) throw new Gone("the connection was lost while the server was answering");
  if (!answer.ok) throw new Refused(answer.status, lineOf(content) ?? `the server refused the request (${answer.status})`);
  return content;
}

const lineOf = (content) => (typeof content?.error === "string" ? content.error : null);
export const itemsOf = (answer) => (Array.isArray(answer) ? answer : answer.items);
