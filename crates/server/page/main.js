// Entry point of the page: shows the view of the current address.

import { onSession, session, signIn, loadSession } from "./api.js";
import { fill, h, notice, announce } from "./dom.js";
import { closeStream } from "./events.js";
import { showSignIn, showUser, takeTokenFromAddress } from "./sign-in.js";
import { showApplications } from "./applications.js";
import { showApplicationSets } from "./appsets.js";
import { showOperations } from "./operations.js";
import { showApplication } from "./application.js";
import { showOperation } from "./operation.js";
import { showApplicationSet } from "./appset.js";
import { showRun } from "./run.js";

const VIEWS = [
  [/^\/$/, showApplications, "Applications"],
  [/^\/applicationsets$/, showApplicationSets, "ApplicationSets"],
  [/^\/operations$/, showOperations, "Operations"],
  [/^\/applications\/([^/]+)\/([^/]+)$/, showApplication, "Application"],
  [/^\/applicationsets\/([^/]+)\/([^/]+)$/, showApplicationSet, "ApplicationSet"],
  [/^\/applicationsets\/([^/]+)\/([^/]+)\/runs\/([^/]+)$/, showRun, "Rollout or deletion"],
  [/^\/operations\/([^/]+)$/, showOperation, "Operation"],
];

const main = document.getElementById("main");
let leaveView = null;
let shownPath = null;

function show(isNavigation) {
  leaveView?.();
  leaveView = null;
  markNavigation();
  if (session.role === null) {
    closeStream();
    notice(null);
    // The dialogs cannot be submitted without a session.
    document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
    document.title = "Sign in – Tidegate";
    return showSignIn(main, session.hasExpired ? "You are signed out; sign in again." : null, () => show(true));
  }
  for (const [pattern, view, title] of VIEWS) {
    const match = location.pathname.match(pattern);
    if (!match) continue;
    const names = match.slice(1).map(decodeSegment);
    document.title = `${[...names].reverse().join(" – ") || title} – Tidegate`;
    // Each view has its own container, so a late response cannot change the next view.
    const container = h("div");
    fill(main, container);
    leaveView = view(container, ...names);
    if (isNavigation) {
      // Moves keyboard and screen reader users to the new view.
      main.focus({ preventScroll: true });
      window.scrollTo(0, 0);
      announce(document.title);
    }
    return undefined;
  }
  document.title = "Not found – Tidegate";
  return fill(main, h("section.panel", null, h("h1", null, "Page not found"),
    h("p", null, "This page does not exist. ", h("a", { href: "/" }, "All Applications"))));
}

function decodeSegment(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function markNavigation() {
  const section = location.pathname.split("/")[1] || "applications";
  for (const item of document.querySelectorAll("nav a")) {
    const itemSection = item.pathname.split("/")[1] || "applications";
    if (itemSection === section) item.setAttribute("aria-current", item.pathname === location.pathname ? "page" : "true");
    else item.removeAttribute("aria-current");
  }
}

// Navigates to another view of this page.
export function navigate(path) {
  history.pushState(null, "", path);
  shownPath = location.pathname;
  show(true);
}

document.addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!anchor || !isPlain || anchor.target || anchor.hasAttribute("download") || anchor.origin !== location.origin) return;
  if (anchor.pathname === location.pathname && anchor.hash) return;
  // Links to the API, such as the sign-in with a provider, leave the page.
  if (anchor.pathname.startsWith("/api/")) return;
  event.preventDefault();
  navigate(anchor.pathname + anchor.search);
});
addEventListener("popstate", () => {
  // Ignores jumps to anchors within the view.
  if (location.pathname === shownPath && location.hash) return;
  shownPath = location.pathname;
  show(true);
});

// If a URL with a token is opened in a tab that already shows the page, only the fragment changes and the
// page is not reloaded.
addEventListener("hashchange", () => {
  if (new URLSearchParams(location.hash.slice(1)).has("token")) start();
});

let role = null;
onSession(() => {
  showUser(document.getElementById("who"), () => show(true));
  if (role !== null && session.role === null) show(true);
  role = session.role;
});

async function start() {
  const token = takeTokenFromAddress();
  shownPath = location.pathname;
  let message = null;
  try {
    if (token) await signIn(token);
  } catch (problem) {
    message = problem.fullMessage ?? String(problem);
  }
  try {
    if (session.role === null) await loadSession();
  } catch (problem) {
    fill(main, h("section.panel", null, h("h1", null, "Unexpected response from the service"),
      h("p.problem", { role: "alert" }, problem.fullMessage ?? String(problem)),
      h("button", { type: "button", onclick: () => location.reload() }, "Try again")));
    return;
  }
  if (session.role === null) {
    markNavigation();
    showSignIn(main, message, () => show(true));
    return;
  }
  show(false);
}

start();
