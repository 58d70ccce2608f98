// Characters that change how their neighbours read, or that nobody can see, are shown by their number.

// Bidirectional overrides and isolates, and the "tag" characters that can smuggle a sentence past the eye.
const HIDDEN = /[\u202A-\u202E\u2066-\u2069\u{E0000}-\u{E007F}]/gu;
const CONTROL = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]/g;

/** Return the text with hidden characters written out as `⟨U+202E⟩`. */
export function visible(text) {
  return text.replace(HIDDEN, named).replace(CONTROL, named);
}

function named(character) {
  return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
