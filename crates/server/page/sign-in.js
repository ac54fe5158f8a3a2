// Sign-in and sign-out.

import { session, signIn, getProviderSignInUrl, signOut } from "./api.js";
import { fill, h, announce } from "./dom.js";

// Returns the token from the URL that `tidegate serve` printed, and removes the token from the address bar and the
// history.
export function takeTokenFromAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

// Shows the sign-in form for a token, and the link for signing in with a provider.
export function showSignIn(container, message, onSignedIn) {
  const forms = [session.provider && renderProviderLink(), session.acceptsTokens && renderTokenForm(message, onSignedIn)].filter(Boolean);
  const standaloneProblem = message && !session.acceptsTokens ? h("p.problem", { role: "alert" }, message) : null;
  fill(container, h("section.panel.narrow", null, h("h1", null, "Sign in"), standaloneProblem,
    forms.flatMap((form, index) => (index === 0 ? [form] : [h("p.or", null, "or"), form]))));
  container.querySelector("#token, a.button").focus();
}

// Renders the link to the provider, which redirects back to the current view after the sign-in.
function renderProviderLink() {
  return h("p", null, h("a.button.primary", { href: getProviderSignInUrl() }, `Sign in with ${session.provider}`));
}

function renderTokenForm(message, onSignedIn) {
  const problem = h("p.problem", { role: "alert", id: "token-problem" }, message ?? "");
  problem.hidden = !message;
  const field = h("input", {
    type: "password", id: "token", autocomplete: "current-password", required: true, "aria-describedby": "token-help token-problem",
  });
  const submit = async (event) => {
    event.preventDefault();
    try {
      await signIn(field.value.trim());
      field.value = "";
      onSignedIn();
    } catch (error) {
      problem.hidden = false;
      fill(problem, error.fullMessage ?? String(error));
      field.focus();
    }
  };
  const help = session.provider ? ["A token from the --tokens file."]
    : ["A token from the --tokens file. Without --tokens, open the URL that ", h("code", null, "tidegate serve"), " printed."];
  return h("form", { onsubmit: submit },
    h("label", { for: "token" }, "Token"), field, h("p.help", { id: "token-help" }, help),
    problem, h("button", { type: "submit", class: session.provider ? null : "primary" }, "Sign in"));
}

// Shows the signed-in user at the top of the page.
export function showUser(container, onSignedOut) {
  if (session.role === null) return fill(container);
  const role = session.role === "operator" ? "operator" : "read-only";
  if (!session.acceptsTokens && !session.provider) {
    return fill(container, h("span", { title: "The service runs without tokens: every user of this machine has read-only access" }, "read-only"));
  }
  const endSession = async () => {
    await signOut().catch((error) => announce(error.fullMessage ?? String(error)));
    onSignedOut();
  };
  return fill(container, h("span", null, session.name, " ", h("small", null, `(${role})`)),
    h("button", { type: "button", onclick: endSession }, "Sign out"));
}
