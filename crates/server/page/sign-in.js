// Signing in and out.

import { session, signIn, signInWithProvider, signOut } from "./ask.js";
import { fill, h, say } from "./draw.js";

// The token of the address that `tidegate serve` has printed; it does not stay in the address.
export function tokenOfAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) history.replaceState(null, "", location.pathname + location.search);
  return found;
}

// Asks who somebody is, until that counts: by a token, or by whom a provider vouches for.
export function askWhoItIs(place, why, then) {
  const ways = [session.provider && withProvider(), session.tokens && withToken(why, then)].filter(Boolean);
  const alone = why && !session.tokens ? h("p.problem", { role: "alert" }, why) : null;
  fill(place, h("section.panel.narrow", null, h("h1", null, "Sign in"), alone,
    ways.flatMap((way, index) => (index === 0 ? [way] : [h("p.or", null, "or"), way]))));
  place.querySelector("#token, a.button").focus();
}

// A link that leads away from the page, and back to what is to be seen here.
function withProvider() {
  return h("p", null, h("a.button.primary", { href: signInWithProvider() }, `Sign in with ${session.provider}`));
}

function withToken(why, then) {
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
  const help = session.provider ? ["A token of the file that --tokens names."]
    : ["A token of the file that --tokens names. Without --tokens, open the address that ", h("code", null, "tidegate serve"), " has printed."];
  return h("form", { onsubmit: submit },
    h("label", { for: "token" }, "Token"), field, h("p.help", { id: "token-help" }, help),
    problem, h("button", { type: "submit", class: session.provider ? null : "primary" }, "Sign in"));
}

// Who is signed in, at the top of the page.
export function showWho(place, then) {
  if (session.role === null) return fill(place);
  const role = session.role === "operator" ? "operator" : "may look";
  if (!session.tokens && !session.provider) {
    return fill(place, h("span", { title: "The service was started without tokens: on this machine everybody may look" }, "may look"));
  }
  const leave = async () => {
    await signOut().catch((error) => say(error.words ?? String(error)));
    then();
  };
  return fill(place, h("span", null, session.name, " ", h("small", null, `(${role})`)),
    h("button", { type: "button", onclick: leave }, "Sign out"));
}
