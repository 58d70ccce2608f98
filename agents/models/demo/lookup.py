"""Finds the ``pure`` tool that a sentence is about: "Where is order 1042?" is for ``lookup_order``.

Such a call changes nothing, so words in common are enough. Its numbers are the sentence's own all the same, each
used once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.models.demo.command import number_of, stated_in, tokens_of
from agents.models.demo.filling import fill, kinds_of
from agents.models.demo.offer import Offer, stem

ENOUGH = 3
"""Points for a tool to be called: 2 for each word of its name, 1 for each other word, 1 when its numbers are there."""
_SAY_NOTHING = frozenset([
    "a", "an", "the", "this", "that", "these", "those", "it", "its", "i", "me", "my", "we", "our", "us", "you", "your",
    "he", "she", "they", "and", "or", "but", "not", "no", "in", "on", "at", "of", "for", "to", "by", "from", "with",
    "as", "is", "are", "was", "were", "be", "been", "do", "does", "did", "can", "could", "will", "would", "should",
    "may", "what", "which", "who", "how", "when", "if", "then", "so", "say", "tell", "show", "give", "return",
    "please", "here", "there", "one", "some", "any", "all", "more",
])  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Lookup:
    """A tool a sentence is about, and what to call it with."""

    offer: Offer
    arguments: Mapping[str, Any]
    missing: Sequence[str]
    """Required numbers that the sentence does not hold."""


def lookup_in(sentence: str, offers: Iterable[Offer]) -> Lookup | None:
    """Return the ``pure`` tool with the most points, the first of several; None where none has enough."""
    pure = [offer for offer in offers if not offer.has_effect]
    best = max(pure, key=lambda offer: _points(sentence, offer), default=None)
    if best is None or _points(sentence, best) < ENOUGH:
        return None
    arguments, missing = _arguments(sentence, best)
    return Lookup(offer=best, arguments=arguments, missing=missing)


def _points(sentence: str, offer: Offer) -> int:
    said, named = _stems([sentence]), {stem(word) for word in offer.words}
    described = _stems([offer.description, *offer.arguments, *_descriptions(offer)]) - named
    letters = "".join(offer.words)
    is_whole = len(letters) > 3 and letters in re.sub(r"[^a-z0-9]", "", sentence.lower())  # "look up" for "lookup"
    of_name = len(offer.words) if is_whole else len(said & named)
    has_numbers = bool(_numeric(offer)) and not _arguments(sentence, offer)[1]
    return 2 * of_name + len(said & described) + has_numbers


def _arguments(sentence: str, offer: Offer) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments of a call, and the required numbers there are none for."""
    stated = stated_in(sentence, offer)
    used = frozenset[int]().union(*(found.tokens for found in stated.values()))
    free = [token for at, token in enumerate(tokens_of(sentence)) if at not in used]
    arguments = fill(offer.parameters, sentence, only_required=True)
    missing = []
    for name, is_whole in _numeric(offer).items():
        token = next((token for token in free if number_of(token, is_whole=is_whole) is not None), None)
        if name in stated:
            continue
        if token is None:
            missing.append(name)
        else:
            free.remove(token)
            arguments[name] = number_of(token, is_whole=is_whole)
    return arguments | {name: found.value for name, found in stated.items()}, missing


def _numeric(offer: Offer) -> dict[str, bool]:
    """Return the required arguments that are numbers, and whether whole ones."""
    kinds = {name: kinds_of(offer.arguments[name]) for name in offer.required}
    return {name: "number" not in kind for name, kind in kinds.items() if "integer" in kind or "number" in kind}


def _descriptions(offer: Offer) -> list[str]:
    return [str(schema.get("description", "")) for schema in offer.arguments.values()]


def _stems(texts: Iterable[str]) -> set[str]:
    words = (word.lower() for text in texts for word in re.findall(r"[^\W\d_]+", text))
    return {stem(word) for word in words if word not in _SAY_NOTHING}
