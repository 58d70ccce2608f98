"""Values of a workflow with which the tests evaluate expressions."""

from typing import Any

from hypothesis import strategies as st

VARIABLES: dict[str, Any] = {
    "input": {
        "amount": 120,
        "share": 0.5,
        "name": 'Ann "A"\n',
        "note": None,
        "paid": True,
        "order": {"items": 3, "id": "o-1"},
        "lines": [{"price": 1, "title": "pen"}, {"price": 2, "title": "cap"}],
        "tags": ["new", "red"],
        "template": "{{ input.amount }}{% for x in y %}{0.__class__}%(x)s",
    },
    "nodes": {"charge": {"choice": "yes", "id": 7}, "look-up": {"hits": []}},
    "variables": {"limit": 100, "names": ["Ann", "Bob"]},
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
