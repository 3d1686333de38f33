/* How elements are made.

   Rule: text goes in as text. Nobody makes markup out of what a cluster says, so a topic may be
   called <script>. */

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id; index.html has it. */
export function byId(id) {
  return document.getElementById(id);
}

/** An element with attributes; children are elements or text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAll(element, attributes);
  element.append(...children);
  return element;
}

/** The same, for drawings. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  setAll(element, attributes);
  element.append(...children);
  return element;
}

function setAll(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
}

/** Writes only what is different: an untouched node costs no layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, name) {
  if (element.className !== name) element.className = name;
}

export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** A button that keeps the focus when it stops making sense, so `disabled` will not do. */
export function setUsable(button, usable) {
  setAttribute(button, "aria-disabled", usable ? null : "true");
}

export function isUsable(button) {
  return button.getAttribute("aria-disabled") !== "true";
}
