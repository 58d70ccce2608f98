// @ts-check
// Characters that change how their neighbours read, or that are invisible, are shown by their number. config/text/visible.py has the same rules.

const CONTROL = "\\u0000-\\u0008\\u000B\\u000C\\u000E-\\u001F\\u007F-\\u009F";
// Unicode's Default_Ignorable_Code_Point and bidirectional controls, without the joiners and variation selectors.
const UNSEEN = "\\u00AD\\u034F\\u061C\\u115F\\u1160\\u17B4\\u17B5\\u180B-\\u180F\\u200B\\u200E\\u200F\\u2028-\\u202E\\u2060-\\u206F\\u3164\\uFEFF\\uFFA0\\uFFF0-\\uFFFB\\u{1D173}-\\u{1D17A}\\u{E0000}-\\u{E0FFF}";
// Arabic, the Indic scripts and their neighbours join their letters; pictures join pictures.
const JOINED = "\\u0600-\\u1CFF\\uA800-\\uABFF\\uFB50-\\uFDFF\\uFE70-\\uFEFC";
const PICTURE = "\\u2190-\\u2BFF\\u{1F000}-\\u{1FAFF}";
const JOINER = `(?<![${JOINED}${PICTURE}\\uFE0F])[\\u200C\\u200D]|[\\u200C\\u200D](?![${JOINED}${PICTURE}])|(?<![^\\u200C\\u200D\\uFE00-\\uFE0F])[\\uFE00-\\uFE0F]`;
const HIDDEN = new RegExp(`[${CONTROL}${UNSEEN}]|${JOINER}`, "gu");

/** @type {(text: string) => string} Returns the text with hidden characters written out as `⟨U+202E⟩`. */
export function visible(text) {
  return text.replace(HIDDEN, named);
}

/** @type {(character: string) => string} */
function named(character) {
  return `⟨U+${/** @type {number} */ (character.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
