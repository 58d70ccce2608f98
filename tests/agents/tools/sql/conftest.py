"""Databases that a deployment names, and a way to ask them as an agent does."""

import asyncio

import pytest

from agents.tools.sql.query import query


@pytest.fixture
def ask(settings, monkeypatch):
    """Ask the database ``shop`` at an address; the answer is what the model gets."""

    def ask(address, sql, **limits):
        monkeypatch.setenv("SHOP_URL", address)
        chosen = settings.model_copy(update={"sql_databases": "shop=SHOP_URL", **limits})
        return asyncio.run(query("shop", sql, chosen))

    return ask
