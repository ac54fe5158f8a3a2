// Questions to the API, in the session of this browser.

export const session = { name: "", role: null, tokens: true, provider: null, csrf: null };
const listeners = new Set();

// What the API could not do, and what to do about it.
export class Problem extends Error {
  constructor(status, told) {
    super(told?.message ?? `the service answered with ${status}`);
    this.code = told?.code ?? "unknown";
    this.next = told?.next ?? "";
    this.status = status;
  }

  get words() {
    return this.next ? `${this.message}: ${this.next}` : this.message;
  }
}

// Called when the session begins or is over.
export function onSession(listener) {
  listeners.add(listener);
}

function took(told) {
  const { name, role, tokens, provider, csrf } = told;
  Object.assign(session, { name, role, tokens, provider, csrf });
  listeners.forEach((listener) => listener());
  return session;
}

// Nobody is signed in; how somebody would be stays as it was.
const tookLeave = () => took({ ...session, name: "", role: null, csrf: null });

export const mayAct = () => session.role === "operator";

async function send(method, path, body, signal) {
  const headers = { accept: "application/json" };
  if (method !== "GET") {
    headers["content-type"] = "application/json";
    if (session.csrf) headers["x-tidegate-csrf"] = session.csrf;
  }
  let answer;
  try {
    const content = body === undefined ? undefined : JSON.stringify(body);
    answer = await fetch(path, { method, headers, body: content, signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { code: "no-connection", message: "the service does not answer", next: "it is asked again in a moment" });
  }
  const told = await answer.json().catch(() => null);
  if (answer.ok) return told;
  if (answer.status === 401 && session.role !== null) tookLeave();
  throw new Problem(answer.status, told);
}

export const look = (path, signal) => send("GET", path, undefined, signal);
export const act = (path, body = {}) => send("POST", path, body);
export const remove = (path) => send("DELETE", path);

// Who this browser is; its role is null where it has to sign in.
export async function whoAmI() {
  return took(await look("/api/v1/session"));
}

export async function signIn(token) {
  return took(await act("/api/v1/session", { token }));
}

export async function signOut() {
  await act("/api/v1/session/end");
  tookLeave();
}

// Where a browser is sent to sign in with the provider; afterwards it shows the view that was asked for.
export const signInWithProvider = () =>
  query("/api/v1/session/oidc", { next: location.pathname + location.search });

// The path of something in the API.
export const at = {
  application: (namespace, name) => `/api/v1/applications/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  set: (namespace, name) => `/api/v1/applicationsets/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  plan: (hash) => `/api/v1/plans/${encodeURIComponent(hash)}`,
  operation: (id) => `/api/v1/operations/${encodeURIComponent(id)}`,
  run: (id) => `/api/v1/runs/${encodeURIComponent(id)}`,
};

// A path with a query, without what is empty.
export function query(path, parameters) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of [value].flat()) {
      if (one !== null && one !== undefined && one !== "" && one !== false) search.append(name, one);
    }
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

// All of a list that comes in pages, as far as `most`.
export async function all(path, most, signal) {
  let items = [];
  let page = null;
  do {
    const answer = await look(query(path, { limit: 500, page }), signal);
    items = items.concat(answer.items);
    page = answer.next;
  } while (page && items.length < most);
  return items;
}
