// What is put on the page. Every text goes in as text: there is no way from a string to markup, and none that turns its direction.

const SVG = "http://www.w3.org/2000/svg";

// An element: h("a.name", {href}, "text", other, [others]). A child that is null or false is left out.
export function h(what, attributes, ...children) {
  return build(document.createElement(what.split(".")[0]), what, attributes, children);
}

// The same of SVG.
export function svg(what, attributes, ...children) {
  return build(document.createElementNS(SVG, what.split(".")[0]), what, attributes, children);
}

// What would turn the direction of a text around, or is seen as nothing, is shown by its number.
function plain(text) {
  return text.replace(/[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g,
    (sign) => `⟨U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

// Attributes that people read or hear.
const READ = new Set(["title", "aria-label"]);

function build(element, what, attributes, children) {
  const classes = what.split(".").slice(1);
  if (classes.length > 0) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) listen(element, name.slice(2), value);
    else if (name === "look") Object.entries(value).forEach(([style, text]) => element.style.setProperty(style, text));
    else if (name === "value" && "value" in element) element.value = value;
    else element.setAttribute(name, value === true ? "" : READ.has(name) ? plain(String(value)) : String(value));
  }
  element.append(...parts(children));
  return element;
}

// What an element does can be exchanged without the element.
function listen(element, event, run) {
  element.does ??= new Map();
  if (!element.does.has(event)) element.addEventListener(event, (happened) => element.does.get(event)?.(happened));
  element.does.set(event, run);
}

// `old` looks as it should; from now on it and what is in it do what `fresh` does.
function adopt(old, fresh) {
  [...(old.does ?? new Map()).keys()].forEach((event) => fresh.does?.has(event) || old.does.set(event, null));
  (fresh.does ?? new Map()).forEach((run, event) => listen(old, event, run));
}

function adoptAll(old, fresh) {
  adopt(old, fresh);
  const children = [...fresh.children];
  [...old.children].forEach((child, index) => adoptAll(child, children[index]));
}

function parts(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(plain(String(child)))));
}

// Puts these in the place of what is there.
export function fill(element, ...children) {
  element.replaceChildren(...parts(children));
  return element;
}

// As `fill`, but what looks the same stays where it is, so that focus, scroll position and what is open are not lost. It does
// what the new one would. The focus on a button that looks otherwise goes to the one with the same `data-do`.
export function refill(element, ...children) {
  const active = element.contains(document.activeElement) ? document.activeElement.dataset.do : null;
  patch(element, h("div", null, ...children));
  if (active && !element.contains(document.activeElement)) {
    element.querySelector(`[data-do="${CSS.escape(active)}"]`)?.focus();
  }
  return element;
}

function patch(old, fresh) {
  const keyOf = (node) => node.dataset?.key;
  const wanted = new Set([...fresh.children].map(keyOf).filter(Boolean));
  [...old.children].filter((one) => keyOf(one) && !wanted.has(keyOf(one))).forEach((one) => one.remove());
  const known = new Set([...old.children].map(keyOf).filter(Boolean));
  const freshs = [...fresh.childNodes];
  freshs.forEach((node, index) => {
    const there = old.childNodes[index];
    if (!there) old.append(node);
    // A row that is new moves the others on.
    else if (keyOf(node) && !known.has(keyOf(node))) old.insertBefore(node, there);
    else if (there.isEqualNode(node)) there.nodeType === Node.ELEMENT_NODE && adoptAll(there, node);
    else if (canPatch(there, node)) patchElement(there, node);
    else there.replaceWith(node);
  });
  [...old.childNodes].slice(freshs.length).forEach((node) => node.remove());
}

function canPatch(old, fresh) {
  return old.nodeType === Node.ELEMENT_NODE && fresh.nodeType === Node.ELEMENT_NODE && old.tagName === fresh.tagName
    && !old.matches("button, input, select, form") && old.dataset.key === fresh.dataset.key;
}

function patchElement(old, fresh) {
  adopt(old, fresh);
  // The policy allows styles that are set so, and no others.
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const { name } of [...old.attributes]) {
    // What a person has opened stays open.
    if (name !== "style" && !fresh.hasAttribute(name) && !(old.tagName === "DETAILS" && name === "open")) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  patch(old, fresh);
}

// A link to a view of this page.
export function link(path, ...children) {
  return h("a", { href: path }, ...children);
}

// A link to elsewhere, where it leads to a web address; anything else is text.
export function outside(address, text) {
  const shown = text ?? address;
  let url = null;
  try {
    url = new URL(address);
  } catch {
    return h("span", null, shown);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return h("span", null, shown);
  return h("a", { href: url.href, rel: "noopener noreferrer external", target: "_blank" }, shown);
}

// Tells those who cannot see it.
export function say(text) {
  const said = document.getElementById("said");
  if (said && said.textContent !== plain(text)) said.textContent = plain(text);
}

// A line at the top for everybody, until it is taken away.
export function notice(text) {
  const place = document.getElementById("notice");
  const shown = plain(text ?? "");
  if (place.textContent !== shown) place.textContent = shown;
  place.hidden = !text;
}

// The path of an Application, ApplicationSet, operation, or rollout or deletion.
export const paths = {
  application: (namespace, name) => `/applications/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  set: (namespace, name) => `/applicationsets/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`,
  operation: (id) => `/operations/${encodeURIComponent(id)}`,
  run: (namespace, name, id) => `${paths.set(namespace, name)}/runs/${encodeURIComponent(id)}`,
};

// Runs something soon, and once for many calls; never twice at once. `now` does not wait.
export function soon(milliseconds, run) {
  let [timer, isRunning, isWanted, isStopped] = [null, false, false, false];
  const begin = async () => {
    [timer, isRunning] = [null, true];
    try {
      await run();
    } finally {
      isRunning = false;
      if (isWanted) {
        isWanted = false;
        later();
      }
    }
  };
  const later = () => {
    if (isRunning) isWanted = true;
    else if (!isStopped) timer ??= setTimeout(begin, milliseconds);
  };
  later.now = () => {
    clearTimeout(timer);
    if (isRunning) isWanted = true;
    else begin();
  };
  later.stop = () => {
    isStopped = true;
    clearTimeout(timer);
  };
  return later;
}
