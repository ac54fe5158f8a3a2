// Requests to the API in the session of this browser.

// `hasExpired` is true if the session ended without a sign-out.
export const session = { name: "", role: null, acceptsTokens: true, provider: null, csrf: null, controlNamespace: null, hasExpired: false };
const listeners = new Set();

// Request error, with a hint about the next step.
export class Problem extends Error {
  constructor(status, response) {
    super(response?.message ?? `the service responded with status ${status}`);
    this.code = response?.code ?? "unknown";
    this.hint = response?.hint ?? "";
    this.status = status;
  }

  get fullMessage() {
    return this.hint ? `${this.message}: ${this.hint}` : this.message;
  }
}

// Registers a listener for the start and the end of the session.
export function onSession(listener) {
  listeners.add(listener);
}

function updateSession(response) {
  const { name, role, acceptsTokens, provider, csrf, controlNamespace, hasExpired = false } = response;
  Object.assign(session, { name, role, acceptsTokens, provider, csrf, controlNamespace, hasExpired });
  listeners.forEach((listener) => listener());
  return session;
}

// The available sign-in methods do not change.
const endSession = (hasExpired) => updateSession({ ...session, name: "", role: null, csrf: null, hasExpired });

export const isOperator = () => session.role === "operator";

// Formats an Application's name. As on the command line, the control plane's namespace is omitted.
export const formatApplicationName = (namespace, name) => (namespace === session.controlNamespace ? name : `${namespace}/${name}`);
export const controlNamespace = () => session.controlNamespace;

const SESSION = "/api/v1/session";

async function send(method, path, body, signal) {
  const headers = { accept: "application/json" };
  if (method !== "GET") {
    headers["content-type"] = "application/json";
    if (session.csrf) headers["x-tidegate-csrf"] = session.csrf;
  }
  let httpResponse;
  try {
    const content = body === undefined ? undefined : JSON.stringify(body);
    httpResponse = await fetch(path, { method, headers, body: content, signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const hint = method === "GET" ? "the page retries in a moment" : "the request may have arrived; check the current state before you retry";
    throw new Problem(0, { code: "no-connection", message: "the service does not respond", hint });
  }
  const response = await httpResponse.json().catch(() => null);
  if (httpResponse.ok) return response;
  // Replaces the API's message, which is meant for programs. The message about a token that was rejected
  // during sign-in is kept, because it is meant for users.
  if (httpResponse.status === 401 && path !== SESSION) {
    if (session.role !== null) endSession(true);
    throw new Problem(401, { code: response?.code, message: "you are signed out", hint: "sign in again" });
  }
  throw new Problem(httpResponse.status, response);
}

export const get = (path, signal) => send("GET", path, undefined, signal);
export const post = (path, body = {}) => send("POST", path, body);
export const del = (path) => send("DELETE", path);

// Loads the identity of this browser's session. The role is null if the user has to sign in.
export async function loadSession() {
  return updateSession(await get(SESSION));
}

// Returns true if the session has ended. An event stream does not report the end of the session.
export async function hasSessionEnded() {
  const { role } = await get(SESSION);
  if (role === null && session.role !== null) endSession(true);
  return role === null;
}

export async function signIn(token) {
  return updateSession(await post(SESSION, { token }));
}

export async function signOut() {
  await post(`${SESSION}/end`);
  endSession(false);
}

// Returns the URL for signing in with the provider. After the sign-in, the provider redirects back to the
// current view.
export const getProviderSignInUrl = () =>
  query("/api/v1/session/oidc", { next: location.pathname + location.search });

// Paths of API resources.
export const apiPath = {
  application: (namespace, name) => `/api/v1/applications/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  set: (namespace, name) => `/api/v1/applicationsets/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  plan: (hash) => `/api/v1/plans/${encodeURIComponent(hash)}`,
  operation: (id) => `/api/v1/operations/${encodeURIComponent(id)}`,
  run: (id) => `/api/v1/runs/${encodeURIComponent(id)}`,
};

// Returns a path with a query string. Omits empty parameters.
export function query(path, parameters) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const item of [value].flat()) {
      if (item !== null && item !== undefined && item !== "" && item !== false) search.append(name, item);
    }
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

// Fetches all pages of a list, up to `limit` items.
export async function getAll(path, limit, signal) {
  let items = [];
  let page = null;
  do {
    const response = await get(query(path, { limit: 500, page }), signal);
    items = items.concat(response.items);
    page = response.next;
  } while (page && items.length < limit);
  return items;
}
