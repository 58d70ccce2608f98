"""``python -m cli.dev.completion``: writes what a shell completes, from the commands themselves."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, get_args

import click
from sqlalchemy.dialects import sqlite

from bus.identity.short_ids import IdKind, id_query
from cli import COMMANDS
from cli.completion.sketch import FILE, Sketch
from cli.options import CommandGroup, Definition, Id, NewThreadId
from config.identity.principal import Principal, Role

_TENANT, _PRINCIPAL, _PART = "the-tenant", "the-principal", "the-part"
_NAMES = {_TENANT: ":tenant", _PRINCIPAL: ":principal", _PART: ":part"}
"""A value that the statements are made with -> what stands in them for it."""


def document() -> str:
    """Return the text of the file: a line for each command and statement, so that a change is one line's."""
    commands = {name: _command(_real(name)) for name in COMMANDS}
    return f'{{"commands": {{\n{_lines(commands)}}},\n"ids": {{\n{_lines(statements())}}}}}\n'


def statements() -> dict[str, str]:
    """Return each kind's statement for SQLite, with ``:tenant``, ``:principal`` and ``:part``."""
    principal = Principal(tenant=_TENANT, id=_PRINCIPAL, roles=frozenset(Role))  # as settings.local_principal
    return {kind: _statement(principal, kind) for kind in get_args(IdKind)}


def _statement(principal: Principal, kind: IdKind) -> str:
    compiled = id_query(principal, kind, _PART).compile(
        dialect=sqlite.dialect(paramstyle="named"), compile_kwargs={"render_postcompile": True}
    )
    text = " ".join(str(compiled).split())
    for name, value in sorted(compiled.params.items(), reverse=True):  # part_10 before part_1
        text = text.replace(f":{name}", _NAMES.get(value, str(value)))
    return text


def _real(name: str) -> click.Command:
    module, _, attribute = COMMANDS[name][0].partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


def _command(command: click.Command) -> Sketch:
    sketch: dict[str, Any] = {
        "help": command.get_short_help_str(100),
        "parameters": [_parameter(each) for each in command.params if not getattr(each, "hidden", False)],
    }
    members = command.members if isinstance(command, CommandGroup) else getattr(command, "commands", {})
    if members:
        sketch["members"] = {name: _command(member) for name, member in members.items()}
    return sketch


def _parameter(parameter: click.Parameter) -> dict[str, Any]:
    sketch: dict[str, Any] = {"nargs": parameter.nargs} if parameter.nargs != 1 else {}
    if isinstance(parameter, click.Option):
        no = "/".join(parameter.secondary_opts)
        sketch |= {"option": parameter.name, "words": [f"{'/'.join(parameter.opts)}/{no}"] if no else parameter.opts}
        named = {"help": parameter.help, "is_flag": parameter.is_flag, "multiple": parameter.multiple}
        named["may_be_bare"] = not parameter.is_flag and parameter._flag_needs_value
        sketch |= {name: value for name, value in named.items() if value}
    else:
        sketch["argument"] = parameter.name
    return sketch | _type(parameter.type)


def _type(kind: click.ParamType[Any]) -> dict[str, Any]:
    match kind:
        case click.Choice():
            return {"choices": [str(choice) for choice in kind.choices]}
        case NewThreadId():
            return {"ids": kind.kind, "is_name": True}
        case Id():
            return {"ids": kind.kind}
        case Definition():
            return {"definitions": list(kind.kinds)}
        case click.Path():
            return {"path": "file" if kind.file_okay else "folder"}
    return {}


def _lines(rows: dict[str, Any]) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}" for name, row in rows.items())


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
