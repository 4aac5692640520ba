// Text and elements. All text comes in by textContent: names of objects are hostile.

// Characters that a reader cannot see, or that turn the text around them.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

const codePoint = (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
// A name for attributes that are shown.
const shown = (name) => name.replace(HIDDEN, (c) => "[" + codePoint(c) + "]");
const inGroups = new Intl.NumberFormat("en-US");
const number = (n) => inGroups.format(n);
const plural = (n, one, many) => number(n) + " " + (n === 1 ? one : many ?? one + "s");

// An element with attributes and children. Children are elements or text.
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child != null && child !== false));
  return made;
}

// A name of an object, kept apart from the direction of the text around it. Hidden characters become marks.
function nameOf(name) {
  const made = el("bdi", name.length > 30 ? { title: shown(name) } : {});
  let at = 0;
  for (const found of name.matchAll(HIDDEN)) {
    made.append(name.slice(at, found.index), el("span", { class: "u" }, codePoint(found[0])));
    at = found.index + found[0].length;
  }
  made.append(name.slice(at));
  return made;
}

// A part of a fragment, as the writer of the page makes it.
const fragment = (text) => {
  try {
    return encodeURIComponent(text).replace(/[!'()*]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());
  } catch {
    return "";
  }
};
const fromFragment = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};
