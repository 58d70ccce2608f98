"""What the page reads from the server again and again."""

from __future__ import annotations

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

PRELUDE = """
  const { scope, watch } = await import(`${page}/dom/live.js`);
  const { resource } = await import(`${page}/services/resource.js`);
  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const short = ({ value, error, isLoading }) => [value ?? null, error?.message ?? null, isLoading];
"""


def test_an_answer_to_an_older_question_is_dropped(module: Module) -> None:
    script = """
      const answers = [];
      const { state, refresh } = resource(() => new Promise((resolve) => answers.push(resolve)));
      refresh();
      answers[1]("new"); answers[0]("old");
      await sleep(5);
      return short(state.value);
    """

    assert module(PRELUDE + script, None) == ["new", None, False]


def test_an_error_keeps_the_last_answer_and_the_question_is_asked_again_as_the_server_says(module: Module) -> None:
    script = """
      const busy = Object.assign(new Error("busy"), { retryable: true, retryAfterMs: 20 });
      const replies = ["first", busy, "third"];
      let asked = 0;
      const read = async () => {
        const reply = replies[asked++];
        if (reply instanceof Error) throw reply;
        return reply;
      };
      const { state, refresh, stop } = resource(read);
      await sleep(5); await refresh();
      const then = short(state.value);
      await sleep(60); stop();
      return [then, short(state.value), asked];
    """

    assert module(PRELUDE + script, None) == [["first", "busy", False], ["third", None, False], 3]


def test_a_refusal_is_not_asked_again_and_the_end_of_the_scope_ends_the_asking(module: Module) -> None:
    script = """
      let refused = 0, polled = 0, aborted = false;
      const end = scope(() => {
        resource(async () => {
          refused += 1;
          throw Object.assign(new Error("no"), { retryable: false });
        });
        const poll = async (abort) => {
          polled += 1;
          abort.addEventListener("abort", () => { aborted = polled === 3; });
          return polled < 3 ? polled : sleep(1000);
        };
        resource(poll, { everyMs: 10 });
      });
      await sleep(60); end(); const before = polled; await sleep(40);
      return [refused, before, polled, aborted];
    """

    assert module(PRELUDE + script, None) == [1, 3, 3, True]


def test_what_a_reader_may_not_see_is_asked_once_however_often_it_would_be(module: Module) -> None:
    script = """
      const asked = { forbidden: 0, refused: 0 };
      const refuses = (name, status) => async () => {
        asked[name] += 1;
        throw Object.assign(new Error("no"), { retryable: false, status });
      };
      const end = scope(() => {
        resource(refuses("forbidden", 403), { everyMs: 5 });
        resource(refuses("refused", 400), { everyMs: 5 });
      });
      while (asked.refused < 4) await sleep(5);
      end();
      return asked.forbidden;
    """

    assert module(PRELUDE + script, None) == 1
