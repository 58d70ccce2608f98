import re

import pytest

from config.definitions.guardrails.checks import check_pattern, flat
from config.definitions.guardrails.prefix_patterns import NotLinear, prefix_pattern
from config.text.patterns import PatternRefused, compiled


def held(pattern: str, text: str) -> str:
    """Return the end of the text that may be the beginning of a match."""
    return text[compiled(rf"(?:{prefix_pattern(pattern)})\z").search(flat(text)).start() :]


@pytest.mark.parametrize(
    ("pattern", "text", "end"),
    [
        ("abc", "xab", "ab"),
        ("abc", "xabd", ""),
        ("abc", "ababc", "abc"),
        ("a|bcd", "xbc", "bc"),
        (r"k-\d{3,5}", "k-12", "k-12"),
        (r"k-\d{3,5}", "k-123456", ""),
        (r"(?i)key=(?:yes|no)", "a KEY=y", "KEY=y"),
        (r"(ab){2,3}c", "xababa", "ababa"),
        (r"\bsk-", "asks", ""),
        (r"s(?<=\bs)k-", "ask", ""),
        (r"s(?<=\bs)k-", "a sk", "sk"),
        (r"x(?=@)", "x", "x"),
        (r"[A-Z]{2}[0-9]{2}x", "A1", ""),
        (r"[A-Z]{2}[0-9]{2}x", "AB1", "AB1"),
        (r"([A-Z][0-9]){2}x", "A1B", "A1B"),
        (r"([A-Z][0-9]){2}x", "A1x", ""),
        (r"[^\s]+!", "one two", "two"),
        ("größe", "die gr", "gr"),
        ("größe", "die größ", "größ"),
        (r"\d{4}", "٣٤", "٣٤"),
        (r"k=[^?]{5}", "a k=éé", "k=éé"),
        (r"k=[^ -~]{5}", "a k=éé", "k=éé"),
    ],
)
def test_the_end_that_may_begin_a_match_is_found(pattern, text, end):
    assert held(pattern, text) == end


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?>a+)b", r"(a)?(?(1)b|c)"])
def test_what_is_not_linear_is_refused(pattern):
    with pytest.raises(NotLinear):
        prefix_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a+)\1$", "linear time"),
        (r"(?<!x)a", "linear time"),
        (r"(?=a)b", "linear time"),
        ("a{1,1000000}", "linear time"),
        ("(", "linear time"),
        ("[z-a]", "linear time"),
        ("", "empty text"),
        ("a*", "empty text"),
        ("x" * 1001, "1,001 characters"),
        ("(((a{60}){60}){60}){60}", "linear time"),
        ("\ud800", "lone surrogate"),
        (r"\p{Greek}+", "Python's `re`"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(pattern, why):
    with pytest.raises(PatternRefused, match=re.escape(why)):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*b", r"(\w+\s?)*$x", r"(.*)*x", r"([a-z]+)*@"])
def test_a_pattern_that_hangs_other_engines_is_linear_here(pattern):
    check_pattern(pattern)
    assert compiled(pattern).search(b"a" * 100_000 + b"!") is None or pattern == r"(a+)+$"
