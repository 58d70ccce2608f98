import re
from pathlib import Path

from bus.payloads import EndPayload
from observers.invoker import drain
from tests.observers.conftest import Room

PAGE = Path(__file__).parents[2] / "docs" / "observers.md"


def test_the_example_of_the_page_works(capsys) -> None:
    source = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    names: dict = {}
    exec(source, names)  # the page's own code is what is tested

    room = Room(names["Ledger"]())
    room.tell(EndPayload, status="succeeded", cost_usd=0.25)
    assert drain(10) == []

    assert capsys.readouterr().err == f"{room.context.run_id} succeeded, assistant has cost $0.2500\n"
