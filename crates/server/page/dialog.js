// A question before something is done: it names what will happen, and whoever asks can still leave it.

import { fill, h, notice, say, soon } from "./draw.js";
import { count } from "./words.js";

// So many of a long list are shown at once; what is written finds the others.
const CHOICES = 100;

// So many letters a field has room for, unless it says otherwise.
const LETTERS = 500;

// Asks, and does it: `what` says what will happen, line by line; `fields` are asked for; `run` gets what was said. What
// `preview` gives for that is shown as soon as it is known, and again when what it depends on is said otherwise.
export function confirm({ title, what, fields = [], action, danger = false, run, preview }) {
  const problem = h("p.problem", { role: "alert" });
  problem.hidden = true;
  const inputs = fields.map(field);
  const button = h(danger ? "button.danger" : "button.primary", { type: "submit", "data-do": "confirm" }, action ?? title);
  const before = h("div", { "aria-live": "polite" });
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" });
  const said = () => Object.fromEntries(inputs.map(({ name, read }) => [name, read()]));
  let [foreseen, asked] = [null, 0];
  const foresee = async () => {
    // Why somebody wants something changes nothing of it.
    const values = { ...said(), reason: undefined };
    const now = JSON.stringify(values);
    if (!preview || foreseen === now) return;
    foreseen = now;
    asked += 1;
    const own = asked;
    const shown = await preview(values).catch((error) => h("p.problem", null, error.words ?? String(error)));
    // What was asked for before may be answered last.
    if (own === asked) fill(before, shown);
  };
  const again = soon(400, foresee);
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      await run(said());
      dialog.close();
      say(`${title}: asked for`);
    } catch (error) {
      problem.hidden = false;
      fill(problem, error.words ?? String(error));
    } finally {
      button.disabled = false;
    }
  };
  fill(dialog, h("form", { onsubmit: submit, oninput: again, onchange: again },
    h("h2", { id: "dialog-title" }, title),
    h("div", { id: "dialog-what" }, [what].flat().map((line) => h("p", null, line))), before,
    inputs.map(({ element }) => element), problem,
    h("div.buttons", null,
      h("button", { type: "button", onclick: () => dialog.close(), "data-do": "leave" }, "Leave it as it is"), button)));
  // Focus goes back to what has opened it by itself.
  dialog.addEventListener("close", () => {
    again.stop();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.setAttribute("aria-describedby", "dialog-what");
  dialog.showModal();
  again.now();
  return dialog;
}

function field({ name, label, kind = "text", help, required = false, value = "", options, most = LETTERS }) {
  const id = `field-${name}`;
  const shared = { id, required, "aria-describedby": help ? `${id}-help` : null };
  const hint = help ? h("p.help", { id: `${id}-help` }, help) : null;
  if (kind === "several") return several({ id, name, label, options });
  if (kind === "check") {
    const input = h("input", { ...shared, type: "checkbox", checked: Boolean(value) });
    return { name, read: () => input.checked, element: h("div.field", null, h("label.check", { for: id }, input, " ", label), hint) };
  }
  const input = kind === "choice"
    ? h("select", shared, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)))
    : h("input", { ...shared, type: "text", value, maxlength: most, autocomplete: "off" });
  return { name, read: () => input.value.trim(), element: h("div.field", null, h("label", { for: id }, label), input, hint) };
}

// Some of a list, which may be long: [value, text]. Nothing is chosen at first, and what is chosen stays so while others are looked for.
function several({ id, name, label, options }) {
  const chosen = new Set();
  const list = h("ul.choices", { tabindex: "0", "aria-label": label });
  const told = h("p.help", { "aria-live": "polite" });
  const find = h("input", { id: `${id}-find`, type: "search", autocomplete: "off", spellcheck: "false", oninput: () => show() });
  const tell = (shown, found) => {
    const left = found > shown ? `; ${shown} of ${count(found, "object")} are shown` : "";
    fill(told, chosen.size > 0 ? `${chosen.size} of ${options.length} chosen${left}` : `None is chosen, so it is about all ${options.length}${left}`);
  };
  const show = () => {
    const part = find.value.trim().toLowerCase();
    const found = options.filter(([, text]) => text.toLowerCase().includes(part));
    fill(list, found.slice(0, CHOICES).map(([value, text], index) => {
      const input = h("input", {
        id: `${id}-${index}`, type: "checkbox", checked: chosen.has(value), "data-value": value,
        onchange: () => {
          if (input.checked) chosen.add(value);
          else chosen.delete(value);
          tell(Math.min(found.length, CHOICES), found.length);
        },
      });
      return h("li", null, h("label.check", { for: `${id}-${index}` }, input, " ", text));
    }));
    tell(Math.min(found.length, CHOICES), found.length);
  };
  show();
  return {
    name, read: () => options.map(([value]) => value).filter((value) => chosen.has(value)),
    element: h("details.field", { id }, h("summary", null, label), h("div.field", null, h("label", { for: `${id}-find` }, "Find"), find), list, told),
  };
}

// A button that asks first.
export function ask(label, question, danger = false) {
  const open = () => {
    notice(null);
    confirm({ title: label.replace("…", ""), danger, ...question() });
  };
  return h(danger ? "button.danger" : "button", { type: "button", onclick: open, "data-do": label }, label);
}
