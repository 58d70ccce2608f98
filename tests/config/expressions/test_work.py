"""Texts within expressions are found as the library finds them."""

import time

import pytest

from config.expressions.work import split_texts


@pytest.mark.parametrize(
    ("source", "bare", "patterns"),
    [
        ("a == 'x'", "a == ''", ()),
        ("a == 'it\\'s' + \"b\"", "a == '' + ''", ()),
        ("a.matches('x')", "a.matches('')", ("'x'",)),
        ("a.matches( r'\\' )", "a.matches( r'' )", ("r'\\'",)),
        ("a.matches('''x'y''')", "a.matches('')", ("'''x'y'''",)),
        ("'.all(' + 'map('", "'' + ''", ()),
        ("vector'x'", "vector''", ()),
        ("a == 'open", "a == ''", ()),
        ("a == 'open\\", "a == ''", ()),
        ("a // it's\n && b == 'x'", "a \n && b == ''", ()),
        ("a // it's", "a ", ()),
        ("a == '//' && b", "a == '' && b", ()),
        ("", "", ()),
    ],
)
def test_texts_are_left_out(source, bare, patterns):
    texts = split_texts(source)

    assert (texts.bare, texts.patterns) == (bare, patterns)


@pytest.mark.parametrize(
    "source", ["'" * 20_000, "\\'" * 10_000, "r'" * 10_000, "\"'" * 10_000, "//\n" * 10_000, "/" * 20_000]
)
def test_splitting_is_linear(source):
    started = time.perf_counter()

    split_texts(source)

    assert time.perf_counter() - started < 0.5
