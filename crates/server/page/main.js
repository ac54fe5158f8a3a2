// The page: finds out what is to be seen at an address, and shows it.

import { onSession, session, signIn, whoAmI } from "./ask.js";
import { fill, h, notice, say } from "./draw.js";
import { close } from "./news.js";
import { askWhoItIs, showWho, tokenOfAddress } from "./sign-in.js";
import { showFleet } from "./fleet.js";
import { showSets } from "./sets.js";
import { showOperations } from "./operations.js";
import { showApplication } from "./application.js";
import { showOperation } from "./operation.js";
import { showRollout } from "./rollout.js";
import { showRun } from "./run.js";

const VIEWS = [
  [/^\/$/, showFleet, "Applications"],
  [/^\/applicationsets$/, showSets, "ApplicationSets"],
  [/^\/operations$/, showOperations, "Operations"],
  [/^\/applications\/([^/]+)\/([^/]+)$/, showApplication, "Application"],
  [/^\/applicationsets\/([^/]+)\/([^/]+)$/, showRollout, "ApplicationSet"],
  [/^\/applicationsets\/([^/]+)\/([^/]+)\/runs\/([^/]+)$/, showRun, "Rollout or deletion"],
  [/^\/operations\/([^/]+)$/, showOperation, "Operation"],
];

const main = document.getElementById("main");
let leave = null;
let shown = null;

function show(hasMoved) {
  leave?.();
  leave = null;
  markNavigation();
  if (session.role === null) {
    close();
    notice(null);
    // Nobody can answer a question any more.
    document.querySelectorAll("dialog").forEach((one) => one.close());
    document.title = "Sign in – Tidegate";
    return askWhoItIs(main, session.isOver ? "You are signed out; sign in again." : null, () => show(true));
  }
  for (const [pattern, view, title] of VIEWS) {
    const parts = location.pathname.match(pattern);
    if (!parts) continue;
    const names = parts.slice(1).map(decode);
    document.title = `${[...names].reverse().join(" – ") || title} – Tidegate`;
    // Each view has a place of its own: an answer that comes when it has been left changes nothing of the next.
    const place = h("div");
    fill(main, place);
    leave = view(place, ...names);
    if (hasMoved) {
      // Whoever listens is told where they are, and goes on from there.
      main.focus({ preventScroll: true });
      window.scrollTo(0, 0);
      say(document.title);
    }
    return undefined;
  }
  document.title = "Not there – Tidegate";
  return fill(main, h("section.panel", null, h("h1", null, "There is nothing here"),
    h("p", null, "The address leads nowhere. ", h("a", { href: "/" }, "All Applications"))));
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function markNavigation() {
  const section = location.pathname.split("/")[1] || "applications";
  for (const one of document.querySelectorAll("nav a")) {
    const own = one.pathname.split("/")[1] || "applications";
    if (own === section) one.setAttribute("aria-current", one.pathname === location.pathname ? "page" : "true");
    else one.removeAttribute("aria-current");
  }
}

// Goes to another view of this page.
export function go(path) {
  history.pushState(null, "", path);
  shown = location.pathname;
  show(true);
}

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!anchor || !isPlain || anchor.target || anchor.hasAttribute("download") || anchor.origin !== location.origin) return;
  if (anchor.pathname === location.pathname && anchor.hash) return;
  // What leads to the provider is no view.
  if (anchor.pathname.startsWith("/api/")) return;
  event.preventDefault();
  go(anchor.pathname + anchor.search);
});
addEventListener("popstate", () => {
  // A jump within the view is none.
  if (location.pathname === shown && location.hash) return;
  shown = location.pathname;
  show(true);
});

// An address with a token that is opened where the page is shown already changes nothing but its last part.
addEventListener("hashchange", () => {
  if (new URLSearchParams(location.hash.slice(1)).has("token")) begin();
});

let role = null;
onSession(() => {
  showWho(document.getElementById("who"), () => show(true));
  if (role !== null && session.role === null) show(true);
  role = session.role;
});

async function begin() {
  const token = tokenOfAddress();
  shown = location.pathname;
  let why = null;
  try {
    if (token) await signIn(token);
  } catch (problem) {
    why = problem.words ?? String(problem);
  }
  try {
    if (session.role === null) await whoAmI();
  } catch (problem) {
    fill(main, h("section.panel", null, h("h1", null, "The service does not answer as it should"),
      h("p.problem", { role: "alert" }, problem.words ?? String(problem)),
      h("button", { type: "button", onclick: () => location.reload() }, "Try again")));
    return;
  }
  if (session.role === null) {
    markNavigation();
    askWhoItIs(main, why, () => show(true));
    return;
  }
  show(false);
}

begin();
