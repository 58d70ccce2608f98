import json
import subprocess
import sys

import click
import pytest

from agents.errors import AgentUnknown
from cli import main as terminal
from cli.main import status_of
from config.database.migrate import migrate
from config.errors import SettingInvalid
from config.folders import ROOT
from config.settings import Settings
from tests.bench.processes import clean_environment
from tests.processes import folder_variables, run_python


@pytest.fixture(autouse=True)
def own_environment(monkeypatch, tmp_path):
    """Flags go into the environment and commands change folder; afterwards both are as they were."""
    import os

    from config.settings import settings

    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal, "CALLER_DIR", tmp_path)
    yield
    os.environ.clear()
    os.environ.update(before)
    settings.cache_clear()


@pytest.fixture
def failing(monkeypatch):
    """Make `migrate` raise."""

    def install(error: BaseException) -> None:
        @click.command()
        def command() -> None:
            raise error

        monkeypatch.setattr("cli.commands.database.migrate", command)

    return install


def test_an_unknown_command_names_the_nearest(capsys):
    assert status_of(["wrker"]) == 2

    err = capsys.readouterr().err
    assert "Did you mean 'worker'?" in err
    assert "./callboard --help" in err


def test_a_family_without_its_command_prints_its_help_alone(capsys):
    assert status_of(["keys"]) == 2

    err = capsys.readouterr().err
    assert err.startswith("Usage: ./callboard keys")
    assert "revoke" in err
    assert "error" not in err


def test_a_wrong_flag_is_wrong_usage_and_says_where_to_look(capsys):
    assert status_of(["migrate", "--nope"]) == 2

    assert "./callboard migrate --help" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (AgentUnknown("suport", ["support"]), 2, "Did you mean 'support'? Or add config/agents/suport.yaml or"),
        (AgentUnknown("other", ["support"]), 2, "no agent or workflow is called 'other'; there are: 'support'. Add"),
        (SettingInvalid("CALLBOARD_PORT cannot be used: too big."), 2, "[setting_invalid]"),
        (RuntimeError("boom"), 1, "unexpected error: RuntimeError: boom"),
        (RuntimeError("key sk-ant-api03-Ab12Cd34Ef56Gh78Ij90"), 1, "[redacted]"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_a_status(failing, capsys, error, status, words):
    failing(error)

    assert status_of(["migrate"]) == status

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert len(output.err.splitlines()) == 1
    assert words in output.err


def test_with_debug_the_traceback_comes_through(failing, monkeypatch):
    failing(RuntimeError("boom"))
    monkeypatch.setenv("CALLBOARD_DEBUG", "1")

    with pytest.raises(RuntimeError, match="boom"):
        status_of(["migrate"])


@pytest.mark.parametrize("stopped", [KeyboardInterrupt(), click.Abort()])
def test_ctrl_c_is_130_without_a_word(failing, capsys, stopped):
    failing(stopped)

    assert status_of(["migrate"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_a_relative_path_is_meant_from_where_the_caller_stands(capsys, tmp_path):
    assert status_of(["migrate", "--state-dir", "mine"]) == 0

    assert (tmp_path / "mine" / "callboard.db").exists()
    assert "now at schema" in capsys.readouterr().out


def test_migrating_twice_says_so(capsys):
    assert [status_of(["migrate", "--state-dir", "mine"]) for _ in range(2)] == [0, 0]

    assert "already at schema" in capsys.readouterr().out


@pytest.mark.parity
def test_a_reader_that_goes_away_is_no_error():
    code = "import sys; from cli.main import status_of; sys.exit(status_of(['--help']))"
    command = f'{sys.executable} -c "{code}" | true'

    ran = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)

    assert "Traceback" not in ran.stderr


@pytest.fixture
def own_celery(monkeypatch):
    """An application of Celery's that no other test has set up; the doctor looks at the process's."""
    from celery import Celery

    import bus.celery_app

    app = Celery("callboard", set_as_current=False)
    app.add_defaults(bus.celery_app._configuration)
    monkeypatch.setattr(bus.celery_app, "app", app)


@pytest.mark.parity
def test_the_doctor_finds_a_new_installation_well(capsys, monkeypatch, tmp_path, own_celery):
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path))  # the shipped ones are looked at in a journey

    status = status_of(["doctor", "--json", "--state-dir", "mine"])

    findings = json.loads(capsys.readouterr().out)
    assert status == 0, findings
    by_name = {finding["about"]: finding for finding in findings}
    checks = "settings periods folders packages authentication redis broker addresses database celery policy agents"
    assert set(by_name) == {*checks.split(), "model", "disk", "state folder", "mcp servers"}
    assert by_name["database"]["verdict"] == "warn"
    assert "./callboard migrate" in by_name["database"]["text"]


@pytest.mark.parity
def test_a_migrated_installation_without_workers_is_warned_and_does_not_fail(capsys, monkeypatch, tmp_path, own_celery):
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path))
    status_of(["migrate", "--state-dir", "mine"])
    capsys.readouterr()

    status = status_of(["doctor", "--json", "--state-dir", "mine"])

    findings = json.loads(capsys.readouterr().out)
    assert status == 0, findings
    by_name = {finding["about"]: finding["verdict"] for finding in findings}
    assert (by_name["workers"], by_name["queues"], by_name["database"]) == ("ok", "warn", "ok")


@pytest.mark.parity
def test_a_broken_plugin_makes_the_doctor_fail(capsys, monkeypatch, tmp_path, own_celery):
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path))
    monkeypatch.setenv("CALLBOARD_PLUGINS", "not_there_at_all:Watcher")

    status = status_of(["doctor", "--state-dir", "mine"])

    assert status == 1
    assert (
        "fail plugins        CALLBOARD_PLUGINS: 'not_there_at_all:Watcher' cannot be imported"
        in capsys.readouterr().out
    )


@pytest.mark.parity
def test_no_finding_shows_a_password(capsys, monkeypatch, tmp_path, own_celery):
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path))
    monkeypatch.setenv("CALLBOARD_BROKER_URL", "amqp://me:hunter2hunter2@127.0.0.1:1//")
    monkeypatch.setenv("CALLBOARD_REDIS_URL", "redis://:hunter2hunter2@127.0.0.1:1/0")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://:hunter2hunter2@127.0.0.1:2/0")

    status = status_of(["doctor", "--state-dir", "mine"])

    output = capsys.readouterr()
    assert status == 1
    assert "Unset CELERY_BROKER_URL" in output.out
    assert "hunter2" not in output.out + output.err


@pytest.mark.parity
def test_a_look_that_breaks_hides_no_other(monkeypatch, tmp_path, own_celery):
    from cli.commands import doctor
    from config.settings import Settings
    from web.doctor import examine

    monkeypatch.setitem(doctor.CHECKS, "folders", "nowhere:check_folders")

    settings = Settings(state_dir=tmp_path, agents_dir=str(tmp_path))
    by_topic = {each.about: each for each in examine(settings, doctor.CHECKS)}

    assert by_topic["folders"].verdict == "fail"
    assert "could not be checked: ModuleNotFoundError" in by_topic["folders"].text
    assert by_topic["packages"].verdict == "ok"
    assert by_topic["agents"].verdict == "warn"


@pytest.mark.parity
def test_the_doctor_names_what_is_wrong_with_its_remedy(capsys, monkeypatch, tmp_path, own_celery):
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "broken.yaml").write_text("name: Broken\nmodell: auto\nsystem_prompt: You.\n")
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(agents))
    monkeypatch.setenv("CALLBOARD_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("CALLBOARD_SLOTTS", "3")

    status = status_of(["doctor", "--state-dir", "mine"])

    output = capsys.readouterr().out
    assert status == 1
    assert "CALLBOARD_SLOTTS is not a setting. Did you mean 'CALLBOARD_SLOTS'?" in output
    assert "fail redis" in output
    assert "broken.yaml:2" in output


def test_the_doctor_refuses_what_is_no_address_before_it_reads_a_stream(capsys):
    status = status_of(["doctor", "--url", "localhost:8000"])

    err = capsys.readouterr().err
    assert status == 2
    assert "an origin without a path" in err
    assert "reading a stream" not in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("up", "--port", "80a"), "'80a' is not a whole number from 0 to 65535."),
        (("up", "--port", "70000"), "'70000' is not a whole number from 0 to 65535."),
        (("logs", "--lines", "-1"), "'-1' is not a whole number of at least 0."),
    ],
)
def test_what_is_no_number_is_refused_in_plain_words(capsys, arguments, complaint):
    assert status_of(list(arguments)) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_agents_lists_what_is_configured_and_fails_when_one_cannot_be_used(capsys, monkeypatch, tmp_path):
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "good.yaml").write_text("name: Good\nmodel: demo/assistant\nsystem_prompt: You.\n")
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(agents))

    well = status_of(["agents", "--json", "--quick"])
    listed = json.loads(capsys.readouterr().out)
    (agents / "bad.yaml").write_text("name: [\n")
    unwell = status_of(["agents", "--quick"])
    output = capsys.readouterr()

    assert well == 0
    assert [row["id"] for row in listed] == ["good"]
    assert unwell == 1
    assert output.out.splitlines()[0].split() == ["✗", "bad", "does", "not", "load"]
    assert "✓\tgood" in output.out
    assert "bad.yaml" in output.err


@pytest.mark.parity
def test_an_agent_with_a_warning_is_marked(capsys, monkeypatch, tmp_path):
    (tmp_path / "agents").mkdir()
    text = "name: Keyless\nmodel: openai/gpt-5-mini\napi_key_env: NOT_SET_ANYWHERE\nsystem_prompt: You.\n"
    (tmp_path / "agents" / "keyless.yaml").write_text(text)
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path / "agents"))

    assert status_of(["agents"]) == 0

    output = capsys.readouterr()
    assert output.out.startswith("!\tkeyless")
    assert "NOT_SET_ANYWHERE is not set" in output.err


def test_the_version_is_that_of_this_checkout(capsys):
    from config.settings.project import own_version

    assert status_of(["--version"]) == 0

    assert capsys.readouterr().out == f"callboard {own_version()}\n"


@pytest.mark.parity
def test_the_doctor_makes_no_state_folder_and_no_database(capsys, monkeypatch, tmp_path, own_celery):
    monkeypatch.setenv("CALLBOARD_AGENTS_DIR", str(tmp_path))
    (tmp_path / "there").mkdir(mode=0o700)

    statuses = [status_of(["doctor", "--state-dir", folder]) for folder in ("mine", "there")]

    assert statuses == [0, 0]
    assert "does not exist yet" in capsys.readouterr().out
    assert not (tmp_path / "mine").exists()
    assert not list((tmp_path / "there").iterdir())


def test_an_unknown_agent_is_named_with_its_nearest(capsys):
    assert status_of(["agents", "asistant"]) == 2

    assert "Did you mean 'assistant'?" in capsys.readouterr().err


def test_the_root_is_where_the_rooms_are():
    assert (ROOT / "callboard").exists()


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("rnu", "run"),
        ("runz", "run"),
        ("agnets", "agents"),
        ("lost", None),
        ("deploy", None),
        ("x", None),
    ],
)
def test_a_command_is_suggested_only_when_it_is_near(
    typed: str, near: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of([typed]) == 2

    err = capsys.readouterr().err
    assert ("Did you mean" in err) is (near is not None)
    assert near is None or f"'{near}" in err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([]) == 0

    assert "Answer and control:" in capsys.readouterr().out


HIDDEN = "a\u202eb\x1b[2J\u009b5n"


@pytest.mark.journey
@pytest.mark.parametrize(
    "words", [["watch", f"run_{HIDDEN}"], ["run", HIDDEN, "Hi"], ["agents"], ["doctor"], [HIDDEN], ["logs", HIDDEN]]
)
def test_hidden_characters_of_definitions_and_arguments_are_shown_by_number(words, tmp_path):
    (tmp_path / "agents").mkdir()
    migrate(Settings(state_dir=tmp_path / "state"))
    text = json.dumps({"name": HIDDEN, "model": f"none{HIDDEN}/x", "description": HIDDEN, "system_prompt": "x"})
    (tmp_path / "agents" / "evil.yaml").write_text(text)

    ran = run_alone(*words, **folder_variables(tmp_path))

    assert "⟨U+202E⟩" in ran.stdout + ran.stderr
    assert not set(ran.stdout + ran.stderr) & set("\u202e\x1b\u009b")


def run_alone(*words, **variables):
    """Run a command in a process of its own, where nothing but the command has set up logging."""
    return run_python("-m", "cli", *words, env={**clean_environment(), "PYTHONPATH": str(ROOT), **variables})


@pytest.mark.parity
def test_the_doctor_says_once_that_a_plugin_cannot_be_used(tmp_path):
    ran = run_alone("doctor", CALLBOARD_STATE_DIR=str(tmp_path / "state"), CALLBOARD_PLUGINS="not_there_at_all:Watcher")

    assert (ran.stdout + ran.stderr).count("'not_there_at_all:Watcher'") == 1


LATE = """
import threading
from agents.tools import tool

@tool(effect="pure", timeout_s=0.05)
def late(words: str) -> str:
    \"\"\"Never answer.\"\"\"
    threading.Event().wait()
    return words
"""


@pytest.mark.parity
def test_the_log_of_a_tool_that_was_given_up_stays_off_the_terminal(tmp_path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "late_tools.py").write_text(LATE)
    text = "name: Late\nmodel: demo/assistant\nsystem_prompt: You.\ntools: ['late_tools:late']\n"
    (tmp_path / "agents" / "late.yaml").write_text(text)

    late = folder_variables(tmp_path) | {"CALLBOARD_TOOL_MODULES": "late_tools", "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    ran = run_alone("run", "late", 'late: words "hello"', **late)

    assert "late" in ran.stderr
    assert "was given up" in ran.stderr
    assert "left behind" not in ran.stderr


@pytest.mark.parity
def test_of_the_log_only_errors_reach_the_terminal_and_no_secret():
    code = (
        "import logging; from cli import main; main._log_errors_only(); log = logging.getLogger('some'); "
        "log.warning('not for the terminal'); log.error('refused: sk-ant-api03-Ab12Cd34Ef56Gh78Ij90')"
    )

    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert ran.stderr == "refused: [redacted]\n"
