// Creation and update of elements. Strings always become text nodes, never markup, and cannot change the text direction.

const SVG = "http://www.w3.org/2000/svg";

// Creates an element: h("a.name", {href}, "text", other, [others]). Children that are null or false are omitted.
export function h(selector, attributes, ...children) {
  return build(document.createElement(selector.split(".")[0]), selector, attributes, children);
}

// Creates an SVG element, with the same arguments as `h`.
export function svg(selector, attributes, ...children) {
  return build(document.createElementNS(SVG, selector.split(".")[0]), selector, attributes, children);
}

// Makes invisible characters and bidirectional control characters visible as code points.
function escapeInvisible(text) {
  return text.replace(/[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g,
    (character) => `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// Attributes whose values are displayed or read aloud.
const READ_ATTRIBUTES = new Set(["title", "aria-label"]);

function build(element, selector, attributes, children) {
  const classes = selector.split(".").slice(1);
  if (classes.length > 0) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) setListener(element, name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([style, text]) => element.style.setProperty(style, text));
    else if (name === "value" && "value" in element) element.value = value;
    else element.setAttribute(name, value === true ? "" : READ_ATTRIBUTES.has(name) ? escapeInvisible(String(value)) : String(value));
  }
  element.append(...toNodes(children));
  return element;
}

// Sets a listener that can be replaced without replacing the element.
function setListener(element, type, run) {
  element.handlers ??= new Map();
  if (!element.handlers.has(type)) element.addEventListener(type, (event) => element.handlers.get(type)?.(event));
  element.handlers.set(type, run);
}

// Copies the listeners of `fresh` to `old`, which has the same structure.
function adoptListeners(old, fresh) {
  [...(old.handlers ?? new Map()).keys()].forEach((type) => fresh.handlers?.has(type) || old.handlers.set(type, null));
  (fresh.handlers ?? new Map()).forEach((run, type) => setListener(old, type, run));
}

function adoptAllListeners(old, fresh) {
  adoptListeners(old, fresh);
  const children = [...fresh.children];
  [...old.children].forEach((child, index) => adoptAllListeners(child, children[index]));
}

function toNodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(escapeInvisible(String(child)))));
}

// Replaces the content of an element.
export function fill(element, ...children) {
  element.replaceChildren(...toNodes(children));
  return element;
}

// Replaces the content of an element like `fill`, but keeps unchanged nodes with their focus, scroll position and open state, and
// only replaces their listeners. If a focused button was replaced, the focus moves to the new button with the same `data-do`.
export function refill(element, ...children) {
  const active = element.contains(document.activeElement) ? document.activeElement.dataset.do : null;
  patch(element, h("div", null, ...children));
  if (active && !element.contains(document.activeElement)) {
    element.querySelector(`[data-do="${CSS.escape(active)}"]`)?.focus();
  }
  return element;
}

function patch(old, fresh) {
  const getKey = (node) => node.dataset?.key;
  const freshKeys = new Set([...fresh.children].map(getKey).filter(Boolean));
  [...old.children].filter((child) => getKey(child) && !freshKeys.has(getKey(child))).forEach((child) => child.remove());
  const oldKeys = new Set([...old.children].map(getKey).filter(Boolean));
  const freshNodes = [...fresh.childNodes];
  freshNodes.forEach((node, index) => {
    const current = old.childNodes[index];
    if (!current) old.append(node);
    // A new row moves the following rows down.
    else if (getKey(node) && !oldKeys.has(getKey(node))) old.insertBefore(node, current);
    else if (current.isEqualNode(node)) current.nodeType === Node.ELEMENT_NODE && adoptAllListeners(current, node);
    else if (canPatch(current, node)) patchElement(current, node);
    else current.replaceWith(node);
  });
  [...old.childNodes].slice(freshNodes.length).forEach((node) => node.remove());
}

function canPatch(old, fresh) {
  return old.nodeType === Node.ELEMENT_NODE && fresh.nodeType === Node.ELEMENT_NODE && old.tagName === fresh.tagName
    && !old.matches("button, input, select, form") && old.dataset.key === fresh.dataset.key;
}

function patchElement(old, fresh) {
  adoptListeners(old, fresh);
  // The Content-Security-Policy permits scripts to set the `style` property, but doesn't permit style
  // attributes.
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const { name } of [...old.attributes]) {
    // Details that the user has opened remain open.
    if (name !== "style" && !fresh.hasAttribute(name) && !(old.tagName === "DETAILS" && name === "open")) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  patch(old, fresh);
}

// Creates a link to a view of this page.
export function link(path, ...children) {
  return h("a", { href: path }, ...children);
}

// Creates a link to another site if the address is an HTTP URL, and plain text otherwise.
export function externalLink(address, text) {
  const label = text ?? address;
  let url = null;
  try {
    url = new URL(address);
  } catch {
    return h("span", null, label);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return h("span", null, label);
  return h("a", { href: url.href, rel: "noopener noreferrer external", target: "_blank" }, label);
}

// Announces a text to screen readers.
export function announce(text) {
  const region = document.getElementById("said");
  const visibleText = escapeInvisible(text ?? "");
  if (region && region.textContent !== visibleText) region.textContent = visibleText;
}

// Shows a notice at the top of the page; null removes it.
export function notice(text) {
  const element = document.getElementById("notice");
  const visibleText = escapeInvisible(text ?? "");
  if (element.textContent !== visibleText) element.textContent = visibleText;
  element.hidden = !text;
}

// Paths of views.
export const paths = {
  application: (namespace, name) => `/applications/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  set: (namespace, name) => `/applicationsets/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  operation: (id) => `/operations/${encodeURIComponent(id)}`,
  run: (namespace, name, id) => `${paths.set(namespace, name)}/runs/${encodeURIComponent(id)}`,
};

// Returns a function that calls `run` after the delay. Calls during the delay are merged, and calls of `run`
// never overlap. `now` skips the delay.
export function debounce(milliseconds, run) {
  let [timer, isRunning, isWanted, isStopped] = [null, false, false, false];
  const runNow = async () => {
    [timer, isRunning] = [null, true];
    try {
      await run();
    } finally {
      isRunning = false;
      if (isWanted) {
        isWanted = false;
        schedule();
      }
    }
  };
  const schedule = () => {
    if (isRunning) isWanted = true;
    else if (!isStopped) timer ??= setTimeout(runNow, milliseconds);
  };
  schedule.now = () => {
    clearTimeout(timer);
    if (isRunning) isWanted = true;
    else runNow();
  };
  schedule.stop = () => {
    isStopped = true;
    clearTimeout(timer);
  };
  return schedule;
}

// Loads a view, and reloads it every two seconds while `isChanging` returns true and the page is visible. `reload` is
// a debounced function. Returns a function that stops the view.
export function keepLoaded({ reload, unsubscribe, abort, isChanging }) {
  reload.now();
  const ticking = setInterval(() => {
    if (isChanging() && !document.hidden) reload();
  }, 2000);
  return () => {
    unsubscribe();
    reload.stop();
    clearInterval(ticking);
    abort.abort();
  };
}
