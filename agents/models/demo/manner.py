"""How a sentence wants to be answered: slowly, at length, by failing, or just by saying hello."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agents.models.demo.arithmetic import number_in

_HELP = re.compile(
    r"\b(?:help|who are you|what are you|what can you do|what do you (?:do|know)|how do you work"
    r"|are you (?:a|an|real))\b"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """How a sentence wants to be answered."""

    slow: bool = False
    ponder: bool = False
    """Think for long."""
    words: int | None = None
    """Write so many words."""
    failure: str | None = None
    """busy, halfway, once or broken."""
    echo: str | None = None
    """Say just this."""
    greeting: bool = False
    help: bool = False
    thanks: bool = False


def manner_of(sentence: str) -> Manner:
    """Return how ``sentence`` wants to be answered."""
    lower = sentence.lower().strip()
    words = re.search(r"\bwrite (?:me )?(?:about )?(\d{1,5}|[a-z]+(?: hundred)?) words\b", lower)
    count = number_in(words[1]) if words else None
    if words and "hundred" in words[1] and count is not None and count < 100:
        count *= 100
    echo = re.match(
        r"(?:please )?(?:say|repeat(?: after me)?|echo)[:,]?\s+(.+)", sentence.strip(), re.IGNORECASE | re.DOTALL
    )
    return Manner(
        slow=bool(re.search(r"\bslow(?:ly|er)?\b", lower)),
        ponder=bool(re.search(r"\bthink (?:long|hard|deep|about it|it through|carefully)", lower)),
        words=min(count, 5000) if count else None,
        failure=_failure(lower),
        echo=echo[1].strip().strip("\"'“”") if echo else None,
        greeting=bool(
            re.match(r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|servus|hola|ciao|bonjour|howdy)\b", lower)
        ),
        help=bool(_HELP.search(lower)),
        thanks=bool(re.match(r"(?:thanks|thank you|thx|great|nice|cool|wonderful|perfect|danke|merci)\b", lower)),
    )


def _failure(lower: str) -> str | None:
    if not re.match(r"(?:please |now |can you |could you )*(?:fail|crash|break)\b", lower):
        return None
    if re.search(r"\bonce\b|first", lower):
        return "once"
    if re.search(r"\bhalf|middle|mid", lower):
        return "halfway"
    return "busy" if re.search(r"429|busy|rate|overload", lower) else "broken"
