// Requests to the server that the page came from.

/** The server refused the request. The message is meant for the reader. */
export class Refused extends Error {
  constructor(status, line) {
    super(line);
    this.status = status;
  }
}

/** This project's server did not answer, or failed with a status. The same request may succeed later. */
export class Gone extends Error {
  constructor(line, status = null) {
    super(line);
    this.status = status;
  }
}

const TIMEOUT = 60_000;
const SOON = 5000;
const PROJECT = "X-Tagtrace-Project"; // in every request, and in every answer of a server that was shown its access token
const LOCKED = 401;
const GONE = "The server does not answer. Decisions are kept in this page and sent when tagtrace review is running again.";
const OTHER =
  "Another project, or another audit of this one, is open at this address now. Decisions are kept in this page and sent only to their own project.";
const STRANGE = "Another program answers at this address. Decisions are kept in this page and sent when tagtrace review is running there again.";
const CLOSED = "The server was started again: open the address that it printed. Decisions are kept in this page and sent then.";
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

/** The reviewer name that requests are sent under; null for the server's default. */
export const acting = () => reviewer;

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

/** Send a POST, under the name `as` if it is given. */
export async function post(path, body, as = reviewer) {
  const sent = token;
  const send = () =>
    ask(`/api/${path}`, {
      as,
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
  const server = page?.headers.get(PROJECT) ?? project;
  if (server !== project) return; // another project is open: the request that comes next says so
  if (!page?.ok || !page.headers.has(PROJECT)) throw new Gone("the server does not answer");
  token = /<meta name="csrf" content="([\w-]+)">/.exec(await page.text())?.[1] ?? token;
}

/** What is wrong with an answer as such: "" if it is one of this project's server, whatever it says. */
function strangeness(answer) {
  const server = answer.headers.get(PROJECT);
  if (answer.status === LOCKED) return CLOSED;
  if (server === project) return "";
  return server === null ? STRANGE : OTHER;
}

async function ask(address, { as = reviewer, ...options }) {
  const limit = AbortSignal.timeout(TIMEOUT);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  let answer;
  try {
    const headers = { ...options.headers, [PROJECT]: project, ...(as ? { "X-Reviewer": encodeURIComponent(as) } : {}) };
    answer = await fetch(address, { ...options, headers, signal, cache: "no-store" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    seen(GONE);
    throw new Gone(limit.aborted ? "the server did not answer in time" : "the server does not answer");
  }
  const content = await answer.json().catch(() => null);
  const problem = strangeness(answer);
  seen(problem);
  if (problem) throw new Gone(problem);
  if (answer.status >= 500) throw new Gone(lineOf(content) ?? `the server failed (${answer.status})`, answer.status);
  if (answer.ok && content === null) throw new Gone("the connection was lost while the server was answering");
  if (!answer.ok) throw new Refused(answer.status, lineOf(content) ?? `the server refused the request (${answer.status})`);
  return content;
}

const lineOf = (content) => (typeof content?.error === "string" ? content.error : null);
export const itemsOf = (answer) => (Array.isArray(answer) ? answer : answer.items);
