// Questions to the API, in the session of this browser.

// It is over where it has ended by itself, and nobody has signed out.
export const session = { name: "", role: null, tokens: true, provider: null, csrf: null, isOver: false };
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
  const { name, role, tokens, provider, csrf, isOver = false } = told;
  Object.assign(session, { name, role, tokens, provider, csrf, isOver });
  listeners.forEach((listener) => listener());
  return session;
}

// Nobody is signed in; how somebody would be stays as it was.
const tookLeave = (isOver) => took({ ...session, name: "", role: null, csrf: null, isOver });

export const mayAct = () => session.role === "operator";

const SESSION = "/api/v1/session";

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
    const next = method === "GET" ? "it is asked again in a moment" : "nobody knows whether this has arrived; look first, then press again";
    throw new Problem(0, { code: "no-connection", message: "the service does not answer", next });
  }
  const told = await answer.json().catch(() => null);
  if (answer.ok) return told;
  // What the API says then is for programs; of a token that does not count it is for people, too.
  if (answer.status === 401 && path !== SESSION) {
    if (session.role !== null) tookLeave(true);
    throw new Problem(401, { code: told?.code, message: "you are signed out", next: "sign in again" });
  }
  throw new Problem(answer.status, told);
}

export const look = (path, signal) => send("GET", path, undefined, signal);
export const act = (path, body = {}) => send("POST", path, body);
export const remove = (path) => send("DELETE", path);

// Who this browser is; its role is null where it has to sign in.
export async function whoAmI() {
  return took(await look(SESSION));
}

// Whether the session is over, of which nobody is told who only listens.
export async function hasEnded() {
  const { role } = await look(SESSION);
  if (role === null && session.role !== null) tookLeave(true);
  return role === null;
}

export async function signIn(token) {
  return took(await act(SESSION, { token }));
}

export async function signOut() {
  await act(`${SESSION}/end`);
  tookLeave(false);
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
