// Dialogs that describe an action before it is executed. The user can cancel each dialog.

import { fill, h, notice, announce, debounce } from "./dom.js";
import { formatCount } from "./format.js";

// Maximum number of displayed choices; the filter gives access to the remaining choices.
const CHOICES_MAX = 100;

// Default maximum length of a text field, in characters.
const LENGTH_MAX = 500;

// Opens a dialog and runs its action after confirmation. `description` contains a line for each effect; `run` receives the values
// of `fields`. `preview` returns the content of the preview, and is called again when the values change.
export function openDialog({ title, description, fields = [], action, danger = false, run, preview }) {
  const problem = h("p.problem", { role: "alert" });
  problem.hidden = true;
  const inputs = fields.map(createField);
  const button = h(danger ? "button.danger" : "button.primary", { type: "submit", "data-do": "confirm" }, action ?? title);
  const previewArea = h("div", { "aria-live": "polite" });
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" });
  const readValues = () => Object.fromEntries(inputs.map(({ name, read }) => [name, read()]));
  let [previewedKey, newestPreview] = [null, 0];
  const showPreview = async () => {
    // The reason does not affect the preview.
    const values = { ...readValues(), reason: undefined };
    const key = JSON.stringify(values);
    if (!preview || previewedKey === key) return;
    previewedKey = key;
    newestPreview += 1;
    const thisPreview = newestPreview;
    const content = await preview(values).catch((error) => h("p.problem", null, error.fullMessage ?? String(error)));
    // Responses may arrive out of order.
    if (thisPreview === newestPreview) fill(previewArea, content);
  };
  const showPreviewLater = debounce(400, showPreview);
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      await run(readValues());
      dialog.close();
      announce(`${title}: requested`);
    } catch (error) {
      problem.hidden = false;
      fill(problem, error.fullMessage ?? String(error));
    } finally {
      button.disabled = false;
    }
  };
  fill(dialog, h("form", { onsubmit: submit, oninput: showPreviewLater, onchange: showPreviewLater },
    h("h2", { id: "dialog-title" }, title),
    h("div", { id: "dialog-what" }, [description].flat().map((line) => h("p", null, line))), previewArea,
    inputs.map(({ element }) => element), problem,
    h("div.buttons", null,
      h("button", { type: "button", onclick: () => dialog.close(), "data-do": "leave" }, "Cancel"), button)));
  // The browser returns the focus to the button that opened the dialog.
  dialog.addEventListener("close", () => {
    showPreviewLater.stop();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.setAttribute("aria-describedby", "dialog-what");
  dialog.showModal();
  showPreviewLater.now();
  return dialog;
}

function createField({ name, label, kind = "text", help, required = false, value = "", options, maxLength = LENGTH_MAX }) {
  const id = `field-${name}`;
  const shared = { id, required, "aria-describedby": help ? `${id}-help` : null };
  const hint = help ? h("p.help", { id: `${id}-help` }, help) : null;
  if (kind === "several") return createMultiSelect({ id, name, label, options });
  if (kind === "check") {
    const input = h("input", { ...shared, type: "checkbox", checked: Boolean(value) });
    return { name, read: () => input.checked, element: h("div.field", null, h("label.check", { for: id }, input, " ", label), hint) };
  }
  const input = kind === "choice"
    ? h("select", shared, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)))
    : h("input", { ...shared, type: "text", value, maxlength: maxLength, autocomplete: "off" });
  return { name, read: () => input.value.trim(), element: h("div.field", null, h("label", { for: id }, label), input, hint) };
}

// Creates a filtered list of checkboxes. `options` are [value, text]. A change to the filter keeps the selection.
function createMultiSelect({ id, name, label, options }) {
  const chosen = new Set();
  const list = h("ul.choices", { tabindex: "0", "aria-label": label });
  const status = h("p.help", { "aria-live": "polite" });
  const searchInput = h("input", { id: `${id}-find`, type: "search", autocomplete: "off", spellcheck: "false", oninput: () => show() });
  const showStatus = (shownCount, matchCount) => {
    const rest = matchCount > shownCount ? `; ${shownCount} of ${formatCount(matchCount, "object")} shown` : "";
    fill(status, chosen.size > 0 ? `${chosen.size} of ${options.length} selected${rest}` : `None selected: applies to all ${options.length}${rest}`);
  };
  const show = () => {
    const search = searchInput.value.trim().toLowerCase();
    const matches = options.filter(([, text]) => text.toLowerCase().includes(search));
    fill(list, matches.slice(0, CHOICES_MAX).map(([value, text], index) => {
      const input = h("input", {
        id: `${id}-${index}`, type: "checkbox", checked: chosen.has(value), "data-value": value,
        onchange: () => {
          if (input.checked) chosen.add(value);
          else chosen.delete(value);
          showStatus(Math.min(matches.length, CHOICES_MAX), matches.length);
        },
      });
      return h("li", null, h("label.check", { for: `${id}-${index}` }, input, " ", text));
    }));
    showStatus(Math.min(matches.length, CHOICES_MAX), matches.length);
  };
  show();
  return {
    name, read: () => options.map(([value]) => value).filter((value) => chosen.has(value)),
    element: h("details.field", { id }, h("summary", null, label), h("div.field", null, h("label", { for: `${id}-find` }, "Filter"), searchInput), list, status),
  };
}

// Creates a button that opens a dialog. `createOptions` returns the options of the dialog.
export function createDialogButton(label, createOptions, danger = false) {
  const open = () => {
    notice(null);
    openDialog({ title: label.replace("…", ""), danger, ...createOptions() });
  };
  return h(danger ? "button.danger" : "button", { type: "button", onclick: open, "data-do": label }, label);
}
