from pathlib import Path

import pytest

from bus.payloads import EndPayload, StatusPayload
from observers.invoker import drain
from observers.logfile.reader import log_lines
from observers.logger import SimpleLoggerObserver
from tests.observers.conftest import Room


def at(second: int) -> str:
    return f"2026-11-20T12:00:{second:02d}.000Z"


def tell(room: Room, *seconds: int) -> None:
    for second in seconds:
        room.tell(StatusPayload, status="running", at=at(second))
        assert drain(10) == []


@pytest.mark.parametrize("as_json", [False, True])
def test_lines_of_all_processes_and_rotated_files_come_by_time(tmp_path: Path, as_json: bool) -> None:
    loggers = [SimpleLoggerObserver(tmp_path, as_json=as_json, max_bytes=600, keep=20) for _ in range(2)]
    first_room, two = (Room(logger) for logger in loggers)
    tell(first_room, *range(0, 40, 2))
    tell(two, *range(1, 40, 2))

    lines = list(log_lines(tmp_path))
    own = list(log_lines(tmp_path, first_room.context.run_id))

    assert len(list(tmp_path.glob("*.log.*"))) > 4
    assert [line.at for line in lines] == [at(second) for second in range(40)]
    assert [line.at for line in own] == [at(second) for second in range(0, 40, 2)]
    assert {(line.run_id, line.type) for line in own} == {(first_room.context.run_id, "status")}


def test_what_is_no_record_keeps_its_place(tmp_path: Path) -> None:
    tmp_path.joinpath("runs-0.log").write_bytes(
        b"garbage \xff\n" + f"{at(5)}  run_a      1  x  end  y\n".encode() + b"torn"
    )

    lines = list(log_lines(tmp_path))

    assert [(line.at, line.run_id, line.type) for line in lines] == [("", "", ""), (at(5), "run_a", "end")]


def test_text_that_imitates_another_run_is_not_taken_for_it(tmp_path: Path) -> None:
    room = Room(SimpleLoggerObserver(tmp_path))
    room.tell(StatusPayload, status="running", reason="2026-11-20T12:00:00.000Z  run_forged  1  a  end  x", at=at(1))
    assert drain(10) == []

    assert list(log_lines(tmp_path, "run_forged")) == []


def test_no_folder_is_no_lines(tmp_path: Path) -> None:
    assert list(log_lines(tmp_path / "none")) == []


def test_following_sees_later_lines_rotations_and_new_processes_until_the_run_ends(tmp_path: Path) -> None:
    first = Room(SimpleLoggerObserver(tmp_path, max_bytes=400, keep=20))
    tell(first, 1)

    def later() -> None:
        match next(steps):
            case 0:
                tell(first, 2, 3, 4, 5)
            case 1:
                tell(Room(SimpleLoggerObserver(tmp_path)), 6)
                tell(first, 7, 8, 9)
            case 2:
                for path in tmp_path.glob("runs-0.log*"):
                    path.unlink()
                first.tell(EndPayload, status="succeeded", at=at(10))
                assert drain(10) == []
            case _:
                raise AssertionError("the run's end was missed")

    steps = iter(range(10))

    seen = list(log_lines(tmp_path, first.context.run_id, follow=True, pause=later))

    assert [line.at for line in seen] == [at(second) for second in (1, 2, 3, 4, 5, 7, 8, 9, 10)]


def test_following_everything_shows_all_runs(tmp_path: Path) -> None:
    room = Room(SimpleLoggerObserver(tmp_path))
    following = log_lines(tmp_path, follow=True, pause=lambda: tell(room, 1))

    assert next(following).run_id == room.context.run_id
