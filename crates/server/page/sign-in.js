// Signing in and out.

import { session, signIn, signOut } from "./ask.js";
import { fill, h, say } from "./draw.js";

// The token of the address that `tidegate serve` has printed; it does not stay in the address.
export function tokenOfAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) history.replaceState(null, "", location.pathname + location.search);
  return found;
}

// Asks for a token until one counts.
export function askForToken(place, why, then) {
  const problem = h("p.problem", { role: "alert", id: "token-problem" }, why ?? "");
  problem.hidden = !why;
  const field = h("input", {
    type: "password", id: "token", autocomplete: "current-password", required: true, "aria-describedby": "token-help token-problem",
  });
  const submit = async (event) => {
    event.preventDefault();
    try {
      await signIn(field.value.trim());
      field.value = "";
      then();
    } catch (error) {
      problem.hidden = false;
      fill(problem, error.words ?? String(error));
      field.focus();
    }
  };
  fill(place, h("section.panel.narrow", null,
    h("h1", null, "Sign in"),
    h("form", { onsubmit: submit },
      h("label", { for: "token" }, "Token"), field,
      h("p.help", { id: "token-help" }, "A token of the file that --tokens names. Without --tokens, open the address that ",
        h("code", null, "tidegate serve"), " has printed."),
      problem, h("button.primary", { type: "submit" }, "Sign in"))));
  field.focus();
}

// Who is signed in, at the top of the page.
export function showWho(place, then) {
  if (session.role === null) return fill(place);
  const role = session.role === "operator" ? "operator" : "may look";
  if (!session.tokens) {
    return fill(place, h("span", { title: "The service was started without tokens: on this machine everybody may look" }, "may look"));
  }
  const leave = async () => {
    await signOut().catch((error) => say(error.words ?? String(error)));
    then();
  };
  return fill(place, h("span", null, session.name, " ", h("small", null, `(${role})`)),
    h("button", { type: "button", onclick: leave }, "Sign out"));
}
