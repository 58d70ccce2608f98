"""What a lab imports before it forks, tried in a process of its own: tools stay wrapped."""

from pathlib import Path

import pytest

from tests.fleet import bare_environment
from tests.processes import run_python

pytestmark = pytest.mark.parity

AGENT = "name: A\nmodel: auto\nsystem_prompt: You answer.\n"
SCRIPT = """
import sys
from pathlib import Path
from cli.crashlab.setting_up import lab_settings, warm
from config.definitions.loading import load_definition

folder = Path(sys.argv[1])
warm(load_definition(folder / "a.yaml"), sys.argv[2], lab_settings(folder, str(folder)))
print("litellm" in sys.modules)
"""


@pytest.mark.parametrize(("model", "is_imported"), [("demo/instant", "False"), ("openai/gpt-5-mini", "True")])
def test_litellm_is_imported_where_the_runs_model_needs_it(tmp_path: Path, model: str, is_imported: str) -> None:
    (tmp_path / "a.yaml").write_text(AGENT)

    ran = run_python("-P", "-c", SCRIPT, str(tmp_path), model, env=bare_environment())

    assert ran.stdout.split() == [is_imported], ran.stderr
