"""Finds the arithmetic in a sentence, written in signs or in words."""

from __future__ import annotations

import re

_WORDS = [
    (r"\b(?:multiplied by|times)\b", "*"),
    (r"(?<=\d)\s*x\s*(?=\d)", " * "),
    (r"\b(?:divided by)\b", "/"),
    (r"\b(?:plus|added to)\b", "+"),
    (r"\bminus\b", "-"),
    (r"\bmod(?:ulo)?\b", "%"),
    (r"\b(?:to the power of|raised to)\b", "**"),
    (r"\bsquared\b", "**2"),
    (r"\bcubed\b", "**3"),
    (r"\b(?:the )?square root of (-?\d+(?:\.\d+)?)", r"sqrt(\1)"),
    (r"\bper ?cent of\b", "% of"),
    (r"\bhalf of (\d+(?:\.\d+)?)", r"\1 / 2"),
    (r"\b(?:the )?(?:product) of (\d+(?:\.\d+)?) and (\d+(?:\.\d+)?)", r"\1 * \2"),
    (r"\b(?:the )?(?:sum) of (\d+(?:\.\d+)?) and (\d+(?:\.\d+)?)", r"\1 + \2"),
]
_COUNTED = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_COUNTED)}
_NUMBER_WORDS |= {"dozen": "12", "hundred": "100", "thousand": "1000"}
_TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)|(?P<of>%\s*of\b)|(?P<sign>\*\*|[-+*/×÷^%−·])"
    r"|(?P<open>(?:\b(?:sqrt|abs|round|min|max|floor|ceil|log10|log2|log|exp|sin|cos|tan)\s*)?\(|√)|(?P<close>\))"
    r"|(?P<name>\b(?:pi|tau)\b|π)|(?P<comma>,(?=\s*[\d(]))|(?P<blank>\s+)|(?P<other>[^\W\d_]+|.)",
    re.IGNORECASE,
)
_NOT_ARITHMETIC = re.compile(
    r"\d{4}-\d{2}-\d{2}|\+\d[\d \-()]{6,}\d|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\S+\.(?:txt|md|csv|json)\b"
)
_GO_ON = [
    (re.compile(r"^(?:and |now |then )*(?:times|multiply(?: (?:that|it|this))? by)\s+(-?[\d.]+)"), "* {}"),
    (re.compile(r"^(?:and |now |then )*(?:divided by|divide(?: (?:that|it|this))? by)\s+(-?[\d.]+)"), "/ {}"),
    (re.compile(r"^(?:and |now |then )*(?:plus|add)\s+(-?[\d.]+)(?: to (?:that|it|this))?"), "+ {}"),
    (re.compile(r"^(?:and |now |then )*(?:minus|subtract|take away)\s+(-?[\d.]+)(?: from (?:that|it|this))?"), "- {}"),
    (re.compile(r"^(?:and |now |then )*double (?:that|it|this)"), "* 2"),
    (re.compile(r"^(?:and |now |then )*(?:halve (?:that|it|this)|half of (?:that|it|this))"), "/ 2"),
    (re.compile(r"^(?:and |now |then )*(?:square (?:that|it|this)|(?:that|it) squared)"), "** 2"),
]


def expression_in(sentence: str, last: str | None = None) -> str | None:
    """Return the expression in ``sentence``; "times two" goes on from ``last``, the number before."""
    text = _numbers_as_digits(_NOT_ARITHMETIC.sub(" ; ", sentence))
    if last is not None:
        for pattern, shape in _GO_ON:
            match = pattern.match(text.strip().lower())
            if match:
                return f"{last} {shape.format(*match.groups())}"
        text = re.sub(r"\b(?:that|it|the result)\b(?=\s*(?:[-+*/]|times|plus|minus|divided|squared))", last, text)
    for words, sign in _WORDS:
        text = re.sub(words, f" {sign} " if "\\" not in sign else sign, text, flags=re.IGNORECASE)
    runs = _runs(text)
    return max(runs, key=len) if runs else None


def number_in(text: str) -> int | None:
    """Return the first whole number of a text, in digits or as a word."""
    match = re.search(r"\d+", _numbers_as_digits(text))
    return int(match[0]) if match and len(match[0]) < 10 else None


def _numbers_as_digits(text: str) -> str:
    return re.sub(r"[A-Za-z]+", lambda word: _NUMBER_WORDS.get(word[0].lower(), word[0]), text)


def _runs(text: str) -> list[str]:
    """Return each stretch that holds a calculation, tidied."""
    runs: list[list[tuple[str, str]]] = [[]]
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup or "other"
        if kind == "other":
            runs.append([])
        else:
            runs[-1].append((kind, token[0].replace(",", "") if kind == "number" else token[0]))
    tidied = (_tidy(run) for run in runs)
    return [run for run in tidied if run]


def _tidy(run: list[tuple[str, str]]) -> str:
    while run and run[0][0] in ("blank", "comma", "close", "of"):
        run = run[1:]
    while run and (run[-1][0] in ("blank", "comma", "open", "of") or (run[-1][0] == "sign" and run[-1][1] != "%")):
        run = run[:-1]
    kinds = [kind for kind, _ in run]
    text = "".join(piece for _, piece in run).strip()
    between = re.search(r"[\d)πi]\s*(?:\*\*|[-+*/×÷^%−·]|%\s*of)\s*[-(\d√a-zπ]", text)
    calls = any((kind == "open" and len(piece) > 1) or piece == "√" for kind, piece in run)
    if "number" not in kinds or not (between or calls) or re.search(r"\d\s+\d", text):
        return ""
    return " ".join(text.split())
