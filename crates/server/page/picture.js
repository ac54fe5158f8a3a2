// Pictures that can be kept: drawn as SVG, with their colours in them, because a file has no style sheet.

import { h, svg } from "./draw.js";

const SAVED = "text{font:12px sans-serif;fill:#1a2330}text.quiet,text.axis{fill:#55606e}text.title{font-size:16px;font-weight:bold}.head text,text.strong{font-weight:bold}"
  + ".dull{fill:#c3cad4}.frame{fill:#d5dae1}.good{fill:#1f8f4e}.busy{fill:#2f7ad1}.wait{fill:#e0a100}.warn{fill:#c96f00}.bad{fill:#c9302c}"
  + ".grid{stroke:#d5dae1}.through{stroke:#000;stroke-dasharray:3 3}rect.paper{fill:#fff}rect.card{fill:#fff;stroke:#d5dae1}rect.empty{fill:#edeff2}";

// A text that has room for so many letters.
export function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.max(3, most - 1))}…`;
}

// Saves a picture as a file of this name.
export function save(picture, name) {
  const style = svg("style");
  style.textContent = SAVED;
  picture.prepend(style, svg("rect.paper", { width: "100%", height: "100%" }));
  const file = new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
  const address = URL.createObjectURL(file);
  const anchor = h("a", { href: address, download: `${name}.svg` });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  URL.revokeObjectURL(address);
}

// The button for that: `draw` makes the picture when it is pressed. `what` says of what, to those who hear it.
export function saveButton(what, name, draw) {
  return h("button", { type: "button", onclick: () => save(draw(), name), "data-do": `save ${what}`, "aria-label": `Save ${what} as SVG` }, "Save as SVG");
}
