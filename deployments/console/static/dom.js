/* Short names for what every part of the page does. */

export const byId = (id) => document.getElementById(id);

export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const percent = (share) => Math.round(100 * share) + "\u202f%";

/* A colour of the stylesheet, as it is now: canvases do not follow light and dark automatically. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function onThemeChange(redraw) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}
