// --- elements: text only ever becomes text, for nothing on this page parses markup ---

const byId = (id) => document.getElementById(id);

// Control characters, those of direction among them, are written out; line breaks stay.
const visible = (child) =>
  typeof child === "string"
    ? child.replace(/(?!\n)[\p{Cc}\p{Cf}]/gu, (letter) => `\\u${letter.codePointAt(0).toString(16).padStart(4, "0")}`)
    : child;

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.map(visible));
  return element;
}

const html = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

function toggled(element, isShown) {
  element.hidden = !isShown;
  if ("disabled" in element) element.disabled = !isShown; // so that a form does not send it
}

// --- turns: what begins again stops what it began before ---

function turns() {
  let current = new AbortController();
  return {
    next() {
      current.abort();
      current = new AbortController();
      return current.signal;
    },
    stop: () => current.abort(),
    isCurrent: (signal) => signal === current.signal,
  };
}

function debounced(work, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
}
