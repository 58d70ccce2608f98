"""A mistake in a file is shown with its line, its field and what to write instead."""

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from config.definitions.yaml_lines import Mistakes, read_yaml


class Window(BaseModel):
    model_config = ConfigDict(extra="forbid")

    start: str = Field(alias="from", pattern=r"^\d\d:\d\d$")
    end: str | None = Field(default=None, alias="to")

    @model_validator(mode="after")
    def _ends_later(self) -> Any:
        if self.end is not None and self.end <= self.start:
            raise ValueError("`to` has to be later than `from`")
        return self


class Fields(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    kind: Literal["a", "b"] = "a"
    windows: list[Window] = []


MISTAKES = Mistakes(
    section_of=lambda place: Window if len(place) > 1 else Fields,
    sentences={
        "missing": "is missing; add `{name}: ...`.",
        "literal_error": "has to be {expected}.",
        "string_pattern_mismatch from": "has to be a time.",
    },
)


@pytest.mark.parametrize(
    ("text", "error_text"),
    [
        ("kind: a\n", ":1: name: is missing; add `name: ...`."),
        ("name: x\nkind: c\n", ":2: kind: has to be 'a' or 'b'."),
        (
            "kind: c\nnmae: x\n",
            ":2: nmae: there is no such field. Did you mean 'name'? Known fields: name, kind, windows.",
        ),
        ("name: x\nwindows:\n- fron: '08:00'\n", "windows[0].fron: there is no such field. Did you mean 'from'?"),
        ("name: x\nwindows:\n- from: noon\n", ":3: windows[0].from: has to be a time."),
        (
            "name: x\nwindows:\n- from: '18:00'\n  to: '08:00'\n",
            ":4: windows[0].to: `to` has to be later than `from`.",
        ),
    ],
)
def test_the_first_mistake_is_shown_at_its_line(tmp_path: Path, text: str, error_text: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    written = read_yaml(file, "`name: ...`")

    with pytest.raises(ValidationError) as caught:
        Fields.model_validate(written.data)

    assert error_text in str(MISTAKES.first(caught.value, written).refusal(str(file), written))


def test_data_without_a_file_has_no_line() -> None:
    with pytest.raises(ValidationError) as caught:
        Fields.model_validate({})

    assert str(MISTAKES.first(caught.value).refusal("agent", None)) == "agent: name: is missing; add `name: ...`."
