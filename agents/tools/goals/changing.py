"""The tools of the goals that change something: `finance`, over a bank of three accounts, and `hr`, paid time off."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any

from pydantic import Field

from agents.tools.goals.data import Entries, entries, shipped
from agents.tools.tool import tool
from config.errors import ToolFailed
from config.text.names import did_you_mean

Account = Annotated[str, Field(min_length=1, max_length=40)]
Money = Annotated[float, Field(gt=0, le=1_000_000)]


@tool(effect="pure", timeout_s=20)
def get_account_balances() -> dict[str, Any]:
    """Get the balance of each of the user's accounts, in euros."""
    with entries() as done:
        balances = _balances(done)
    return {"columns": ["account", "balance_eur"], "rows": [[name, cents / 100] for name, cents in balances.items()]}


@tool(effect="unsafe", confirm=True, timeout_s=20)
def move_money(from_account: Account, to_account: Account, amount_eur: Money) -> dict[str, Any]:
    """Move money from one account of the user to another one. It is moved at once.

    Args:
        from_account: the account that pays, such as checking.
        to_account: the account that gets it, such as savings.
        amount_eur: how much, in euros.
    """
    with entries() as done:
        if done.own is not None:
            return done.own
        balances, cents = _balances(done), _cents(amount_eur)
        payer, payee = _account(from_account, balances), _account(to_account, balances)
        if payer == payee:
            raise ToolFailed(f"'{payer}' is on both sides; name two accounts.")
        if cents > balances[payer]:
            raise ToolFailed(f"'{payer}' has {balances[payer] / 100:.2f} euros, which is not enough; move less.")
        return done.add("move", {"from_account": payer, "to_account": payee, "amount_eur": cents / 100})


@tool(effect="unsafe", confirm=True, timeout_s=20)
def submit_loan_application(amount_eur: Money, purpose: Annotated[str, Field(max_length=200)]) -> dict[str, Any]:
    """Submit an application for a loan. It cannot be taken back.

    Args:
        amount_eur: how much, in euros.
        purpose: what the money is for.
    """
    with entries() as done:
        if done.own is not None:
            return done.own
        number = len(done.of("loan")) + 1
        facts = {"amount_eur": _cents(amount_eur) / 100, "purpose": purpose, "status": "submitted"}
        return done.add("loan", {"application": f"LOAN-{number}", **facts})


def _balances(done: Entries) -> dict[str, int]:
    """Return the balance of each account in cents."""
    balances: dict[str, int] = dict(shipped("bank"))
    for move in done.of("move"):
        cents = _cents(move["amount_eur"])
        balances[move["from_account"]] -= cents
        balances[move["to_account"]] += cents
    return balances


def _account(name: str, balances: Mapping[str, int]) -> str:
    account = name.strip().lower().removesuffix(" account")
    if account not in balances:
        raise ToolFailed(
            f"there is no account '{name}'.{did_you_mean(account, balances)} Accounts: {', '.join(balances)}."
        )
    return account


def _cents(amount_eur: float) -> int:
    cents = round(amount_eur * 100)
    if abs(cents - amount_eur * 100) > 1e-6 or cents == 0:
        raise ToolFailed("an amount has whole cents; write it with two decimals.")
    return cents


# --- hr: the paid time off (PTO) of the user


Day = Annotated[str, Field(max_length=10, pattern=r"^\d{4}-\d{2}-\d{2}$")]
DAYS_A_YEAR = 25
LONGEST = timedelta(days=366)


@tool(effect="pure", timeout_s=20)
def current_pto() -> dict[str, Any]:
    """Get how many days of paid time off the user has left, and what is booked."""
    with entries() as done:
        return {
            "days_left": _left(done),
            "booked": [f"{pto['start_date']} to {pto['end_date']}" for pto in done.of("pto")],
        }


@tool(effect="unsafe", confirm=True, timeout_s=20)
def book_pto(start_date: Day, end_date: Day) -> dict[str, Any]:
    """Book paid time off for the user. Weekends do not count.

    Args:
        start_date: the first day, as 2026-05-31.
        end_date: the last day.
    """
    with entries() as done:
        if done.own is not None:
            return done.own
        first, last = _day(start_date), _day(end_date)
        if not timedelta() <= last - first <= LONGEST:
            raise ToolFailed(f"{end_date} is not within a year after {start_date}; write the first day first.")
        for pto in done.of("pto"):
            if first <= _day(pto["end_date"]) and _day(pto["start_date"]) <= last:
                raise ToolFailed(f"{pto['start_date']} to {pto['end_date']} is booked already; choose other days.")
        days = sum((first + timedelta(days=n)).weekday() < 5 for n in range((last - first).days + 1))
        if not 0 < days <= _left(done):
            raise ToolFailed(f"that is {days} working days, and {_left(done)} are left; choose other days.")
        facts = {"start_date": start_date, "end_date": end_date, "days": days}
        return done.add("pto", {**facts, "days_left": _left(done) - days})


def _left(done: Entries) -> int:
    return DAYS_A_YEAR - sum(int(pto["days"]) for pto in done.of("pto"))


def _day(written: str) -> date:
    try:
        return date.fromisoformat(written)
    except ValueError as error:
        raise ToolFailed(f"'{written}' is no day; write one as 2026-05-31.") from error
