"""A command that has subcommands: `runs` lists, `runs rm` removes."""

from __future__ import annotations

from typing import Any

import click


class CommandGroup(click.Command):
    """A command that runs a member instead of itself if the first argument names one.

    A click group cannot do this, since the first argument may also be a value: `threads THREAD`.
    """

    def __init__(self, *args: Any, members: dict[str, click.Command], **options: Any) -> None:
        super().__init__(*args, **options)
        self._members = members

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        member = self._members.get(args[0]) if args else None
        if member is not None:
            return member.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, member.get_short_help_str(100)) for name, member in self._members.items()])
        super().format_epilog(ctx, formatter)
