"""The modules of the first load as one file: they do what they do apart, and exist once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.web.page.conftest import Module
from web.page_files import STATIC, PageFiles
from web.page_modules import first_load, joined, source_map, stand_in, taken_from

MODULES = {
    "app.js": 'import { add as plus, Counter } from "./state/sum.js";\nimport { name } from "./names.js";\n'
    'export const total = plus(1, 2);\nexport async function later() { return (await import("./late.js")).seen; }\n'
    "export class App extends Counter { who() { return name; } }",
    "state/sum.js": 'import { name } from "../names.js";\nexport { name } from "../names.js";\nconst hidden = 1;\n'
    "export function add(a, b) { return a + b; }\nexport class Counter { count = hidden; }\nexport { hidden };",
    "names.js": 'const hidden = "Ada";\nexport const name = hidden;',
    "late.js": 'import { Counter, name } from "./state/sum.js";\n'
    "export const seen = [new Counter().count, name, Counter];",
}
NAMES = ["names.js", "state/sum.js", "app.js"]


def test_modules_stand_behind_those_that_they_import() -> None:
    assert first_load(MODULES, "app.js") == NAMES


def test_a_circle_of_modules_is_refused_with_its_names() -> None:
    modules = {"a.js": 'import { b } from "./b.js";', "b.js": 'import { a } from "./a.js";'}

    with pytest.raises(ValueError, match=r"a\.js -> b\.js -> a\.js"):
        first_load(modules, "a.js")


@pytest.mark.parity
def test_joined_modules_are_the_same_objects_for_what_is_loaded_later(module: Module, tmp_path: Path) -> None:
    text = joined(MODULES, NAMES).replace('import("/static/', f'import("{tmp_path}/')
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "all.js").write_text(text)
    (tmp_path / "late.js").write_text(taken_from(MODULES["late.js"], "late.js", NAMES, "./all.js"))
    (tmp_path / "sum.js").write_text(stand_in(MODULES["state/sum.js"], 1, "./all.js"))
    script = """
      const { $2: { total, later, App } } = await import(`${argument}/all.js`);
      const sum = await import(`${argument}/sum.js`);
      const [count, name, Counter] = await later();
      const isOnce = sum.Counter === Counter && Object.getPrototypeOf(App) === Counter;
      return { total, who: new App().who(), count, name, isOnce, exports: Object.keys(sum).sort() };
    """

    answer = module(script, str(tmp_path))

    assert answer == {
        "total": 3,
        "who": "Ada",
        "count": 1,
        "name": "Ada",
        "isOnce": True,
        "exports": ["Counter", "add", "hidden", "name"],
    }


@pytest.mark.parity
def test_an_error_names_the_module_and_its_line(tmp_path: Path) -> None:
    modules = {"a.js": "\nexport const one = 1;", "b/c.js": 'import { one } from "../a.js";\n\n\none.missing();'}
    names = first_load(modules, "b/c.js")
    (tmp_path / "all.mjs").write_text(joined(modules, names) + "//# sourceMappingURL=all.map\n")
    (tmp_path / "all.map").write_text(source_map(modules, names))

    ran = subprocess.run(
        ["node", "--enable-source-maps", str(tmp_path / "all.mjs")], capture_output=True, text=True, check=False
    )

    assert json.loads(source_map(modules, names))["sources"] == ["/static/a.js", "/static/b/c.js"]
    assert "/static/b/c.js:4" in ran.stderr, ran.stderr


@pytest.mark.parity
def test_every_file_of_the_page_can_be_parsed(tmp_path: Path) -> None:
    files = PageFiles(STATIC).files
    for name, file in files.items():
        if name.endswith(".js"):
            path = tmp_path / f"{name.replace('/', '_').removesuffix('.js')}.mjs"
            path.write_bytes(file.content)

    commands = (["node", "--check", str(path)] for path in sorted(tmp_path.iterdir()))
    checks = [subprocess.run(command, capture_output=True, text=True, check=False) for command in commands]

    assert [check.stderr for check in checks if check.returncode] == []
