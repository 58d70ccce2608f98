"""The modules of the first load as one file: they do what they do apart, and exist once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.web.page.conftest import Module
from web.page_files import STATIC, PageFiles
from web.page_modules import JoinedModules, load_order

MODULES = {
    "app.js": 'import { add as plus, Counter } from "./state/sum.js";\nimport { name } from "./names.js";\n'
    "export const total = plus(1, 2);\n"
    'export async function later() { return await import("./late.js"); }\n'
    "export class App extends Counter { who() { return name; } }\nglobalThis.app = { total, later, App, Counter };",
    "state/sum.js": 'import { name } from "../names.js";\nexport { name } from "../names.js";\nconst hidden = 1;\n'
    "export function add(a, b) { return a + b; }\nexport class Counter { count = hidden; }\nexport { hidden };",
    "names.js": 'const hidden = "Ada";\nexport const name = hidden;',
    "late.js": 'import { Counter, name } from "./state/sum.js";\nimport { plus } from "./signs.js";\n'
    "export const seen = [new Counter().count, name, Counter, plus];\n"
    'export const more = () => import("./more.js");',
    "more.js": 'import { add } from "./state/sum.js";\nexport const sum = add(20, 3);',
    "signs.js": 'export const plus = "+";',
}
TOKENS = """
  const { tokenizer } = require("internal/deps/acorn/acorn/dist/acorn");
  const { readFileSync } = require("node:fs");
  const tokens = (name) => {
    const text = readFileSync(`${process.argv[1]}/${name}`, "utf8");
    const all = tokenizer(text, { ecmaVersion: "latest", sourceType: "module" });
    const texts = [...all].map(({ start, end }) => text.slice(start, end));
    return texts.filter((token, index) => token !== ";" || texts[index + 1] !== "}");
  };
  const counts = ["index.js", "late.js", "reference.js"].map((name) => {
    const [packed, whole] = [tokens(`packed-${name}`), tokens(`whole-${name}`)];
    const at = whole.findIndex((token, index) => token !== packed[index] && !/^v[0-9a-f]{8}$/.test(token));
    if (at >= 0 || whole.length !== packed.length) throw new Error(`${name}: ${whole.slice(at, at + 9).join(" ")}`);
    return packed.length;
  });
  console.log(JSON.stringify(counts));
"""
FIRST, LATE = ["names.js", "state/sum.js", "app.js"], ["signs.js", "late.js", "more.js"]


def test_modules_stand_behind_those_that_they_import() -> None:
    assert load_order(MODULES, "app.js") == (FIRST, LATE)


def test_a_circle_of_modules_is_refused_with_its_names() -> None:
    modules = {"a.js": 'import { b } from "./b.js";', "b.js": 'import { a } from "./a.js";'}

    with pytest.raises(ValueError, match=r"a\.js -> b\.js -> a\.js"):
        load_order(modules, "a.js")


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write files that import each other by their paths in a folder."""
    (folder / "package.json").write_text('{"type": "module"}')
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.replace("/static/", f"{folder}/"))


@pytest.mark.parity
def test_joined_modules_are_the_same_objects_for_all_that_import_them(module: Module, tmp_path: Path) -> None:
    write(tmp_path, JoinedModules(MODULES, {"first.js": FIRST, "later.js": LATE}).texts())
    script = """
      await import(`${argument}/first.js`);
      const { total, later, App, Counter } = globalThis.app;
      const { more, seen: [count, name, OwnCounter, sign] } = await later();
      const isOnce = OwnCounter === Counter && Object.getPrototypeOf(App) === Counter;
      const { sum: last } = await more();
      return { total, who: new App().who(), count, name, sign, isOnce, last };
    """

    answer = module(script, str(tmp_path))

    assert answer == {"total": 3, "who": "Ada", "count": 1, "name": "Ada", "sign": "+", "isOnce": True, "last": 23}


def test_spaces_are_left_out_but_for_those_in_strings_templates_and_patterns() -> None:
    lines = [
        'const a = "b = { c }", d = /[/"] , {2}/.test(a) ? 1 : -1;',
        'say(`e, ${f ? ` g, ${"h"} ` : ""} , i`, k, "l");',
        "return /m , n/.test(o) && p / 2 > q / 3;",
    ]

    texts = JoinedModules({"a.js": "\n".join(lines)}, {"first.js": ["a.js"]}).texts()

    assert texts["first.js"].split("\n")[1:4] == [
        'const a="b = { c }",d=/[/"] , {2}/.test(a)?1:-1;',
        'say(`e, ${f ? ` g, ${"h"} ` : ""} , i`,k,"l");',
        "return /m , n/.test(o)&&p / 2>q / 3;",
    ]


@pytest.mark.parity
def test_files_of_two_versions_are_not_mixed(module: Module, tmp_path: Path) -> None:
    texts = JoinedModules(MODULES, {"first.js": FIRST, "later.js": LATE}).texts()
    newer = MODULES | {"names.js": 'export const name = "Grace";'}
    texts["later.js"] = JoinedModules(newer, {"first.js": FIRST, "later.js": LATE}).texts()["later.js"]
    write(tmp_path, texts)

    error = module('return import(`${argument}/later.js`).then(() => "", (error) => error.name);', str(tmp_path))

    assert error == "SyntaxError"


@pytest.mark.parity
@pytest.mark.parametrize("file", ["first", "later"])
def test_an_error_names_the_module_and_its_line(tmp_path: Path, file: str) -> None:
    failing = 'import { one } from "./a.js";\n\n\none.missing();'
    modules = {"a.js": "\n\nexport const one = 1;", "b.js": 'import("./c.js");\n\n\n', "c.js": failing}
    first, late = (["a.js", "c.js"], ["b.js"]) if file == "first" else (["a.js", "b.js"], ["c.js"])
    texts = JoinedModules(modules, {"first.js": first, "later.js": late}).texts()
    write(tmp_path, texts)

    ran = subprocess.run(
        ["node", "--enable-source-maps", str(tmp_path / f"{file}.js")], capture_output=True, text=True, check=False
    )

    assert json.loads(texts[f"{file}.js.map"])["sources"][-1] == "/static/c.js"
    assert "/c.js:4" in ran.stderr, ran.stderr


@pytest.mark.parity
def test_what_is_left_out_of_a_file_is_none_of_its_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = {name: file.content for name, file in PageFiles(STATIC).files.items() if name.endswith(".js")}
    monkeypatch.setattr("web.page_modules.packed", lambda line: line)
    monkeypatch.setattr("web.page_files.packed", "".join)
    whole = PageFiles(STATIC).files
    for name in ("index.js", "late.js", "reference.js"):
        (tmp_path / f"packed-{name}").write_bytes(served[name])
        (tmp_path / f"whole-{name}").write_bytes(whole[name].content)

    ran = subprocess.run(
        ["node", "--expose-internals", "--no-warnings", "-e", TOKENS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    counts = json.loads(ran.stdout or "[]")
    assert ran.returncode == 0, ran.stderr
    assert [count > 1000 for count in counts] == [True, True, True], counts


@pytest.mark.parity
def test_every_file_that_shells_load_can_be_parsed(tmp_path: Path) -> None:
    files = PageFiles(STATIC).files
    for name, file in files.items():
        if f"{name}.map" in files:
            path = tmp_path / f"{name.replace('/', '_').removesuffix('.js')}.mjs"
            path.write_bytes(file.content)

    commands = (["node", "--check", str(path)] for path in sorted(tmp_path.iterdir()))
    checks = [subprocess.run(command, capture_output=True, text=True, check=False) for command in commands]

    assert [check.stderr for check in checks if check.returncode] == []
