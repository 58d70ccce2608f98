"""``python -m cli.dev.contracts``: writes the contracts, compares them with the last release, or releases them."""

from __future__ import annotations

import json
from pathlib import Path

import click

from cli.dev.contracts.compatibility import incompatibilities
from cli.dev.contracts.contract import CONTRACTS, FOLDER, texts

RELEASED = FOLDER / "released"
ON_PURPOSE = (
    "A program that was written for the last release would fail. If that has to be, raise the first number of the "
    "version, say what such programs have to change under Upgrading in CHANGELOG.md, and run "
    "`python -m cli.dev.contracts --release`."
)


@click.command()
@click.option("--check", "is_check", is_flag=True, help="Compare with the last release, and write nothing.")
@click.option("--release", "is_release", is_flag=True, help="Make the present contracts those of the last release.")
def main(is_check: bool, is_release: bool) -> None:
    """Write the contracts to docs/contracts, each as JSON Schema."""
    problems = [] if is_release else changes_since_release()
    if not is_check:
        write(FOLDER)
    if is_release:
        write(RELEASED)
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        raise click.ClickException(ON_PURPOSE)


def write(folder: Path) -> None:
    """Write each contract to its file in ``folder``, which has no other afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    for contract, text in texts():
        contract.file(folder).write_text(text, encoding="utf-8")


def changes_since_release() -> list[str]:
    """Return a sentence for each change since the last release that other programs do not survive."""
    names = {contract.file(RELEASED).name for contract in CONTRACTS}
    gone = [file.stem for file in sorted(RELEASED.glob("*.json")) if file.name not in names]
    problems = [f"{name}: the contract was removed; keep it, since programs use it." for name in gone]
    for contract in CONTRACTS:
        file = contract.file(RELEASED)
        if file.exists():  # a new contract was not released yet
            problems += incompatibilities(contract, json.loads(file.read_text("utf-8")), contract.document)
    return problems


if __name__ == "__main__":
    main()
