"""Signals, watches, scopes and keyed lists: what follows a value, and when it stops."""

from __future__ import annotations

import pytest

from tests.web.page.conftest import Module

pytestmark = pytest.mark.parity

PRELUDE = """
  const { signal, watch, scope, onEnd, each } = await import(`${page}/dom/live.js`);
  const log = [];
"""
# As much of an element as `each` uses: its children in their order, and how often one was put somewhere.
PARENT = """
  let moves = 0;
  globalThis.document = { activeElement: null };
  const element = (name) => ({
    name,
    get nextElementSibling() { return parent.children[parent.children.indexOf(this) + 1] ?? null; },
    remove() { parent.children.splice(parent.children.indexOf(this), 1); },
  });
  const parent = {
    children: [],
    get firstElementChild() { return this.children[0] ?? null; },
    contains: () => false,
    insertBefore(child, at) {
      moves += 1;
      if (this.children.includes(child)) child.remove();
      this.children.splice(at ? this.children.indexOf(at) : this.children.length, 0, child);
    },
  };
  const names = () => parent.children.map((child) => child.name).join("");
"""


def test_a_watch_runs_once_a_frame_for_what_it_has_read(module: Module) -> None:
    script = """
      const first = signal(1), second = signal(10), unread = signal(0);
      watch(() => log.push(first.value + second.value + unread.peek()));
      first.value = 2; second.value = 20; unread.value = 5;
      await frame();
      second.value = 20; unread.value = 6;
      await frame();
      return log;
    """

    assert module(PRELUDE + script, None) == [11, 27]


def test_a_watch_follows_what_it_read_the_last_time_alone(module: Module) -> None:
    script = """
      const isOn = signal(true), text = signal("a");
      watch(() => log.push(isOn.value ? text.value : "off"));
      isOn.value = false; await frame();
      text.value = "b"; await frame();
      isOn.value = true; await frame();
      return log;
    """

    assert module(PRELUDE + script, None) == ["a", "off", "b"]


def test_the_end_of_a_scope_ends_all_that_began_in_it_the_newest_first(module: Module) -> None:
    script = """
      const value = signal(1);
      const end = scope(() => {
        onEnd(() => log.push("outer"));
        watch(() => {
          log.push(value.value);
          onEnd(() => log.push(`inner ${value.peek()}`));
        });
      });
      value.value = 2; await frame();
      value.value = 3; end(); end(); await frame();
      value.value = 4; await frame();
      return log;
    """

    assert module(PRELUDE + script, None) == [1, "inner 2", 2, "inner 3", "outer"]


def test_what_a_failed_scope_had_begun_is_ended(module: Module) -> None:
    script = """
      const value = signal(1);
      const fail = () => { throw new Error("no"); };
      try {
        scope(() => { watch(() => log.push(value.value)); fail(); });
      } catch (error) {
        log.push(error.message);
      }
      value.value = 2; await frame();
      watch(() => log.push(`after ${value.value}`));
      return log;
    """

    assert module(PRELUDE + script, None) == [1, "no", "after 2"]


def test_each_makes_a_child_once_for_each_key_and_moves_as_few_as_it_can(module: Module) -> None:
    script = """
      const rows = signal([..."abcde"]);
      const end = scope(() => each(parent, () => rows.value, (row) => row, (row) => {
        log.push(row.peek()); onEnd(() => log.push(`-${row.peek()}`)); return element(row.peek());
      }));
      const steps = [];
      for (const next of ["abcde", "bcdea", "eabcd", "ax", "xa", ""]) {
        moves = 0; rows.value = [...next]; await frame(); steps.push([names(), moves]);
      }
      rows.value = ["z"]; end(); await frame();
      return { log, steps };
    """

    answer = module(PRELUDE + PARENT + script, None)

    assert [names for names, _ in answer["steps"]] == ["abcde", "bcdea", "eabcd", "ax", "xa", ""]
    assert [moves for _, moves in answer["steps"]] == [0, 1, 2, 1, 1, 0]
    assert "".join(answer["log"]) == "abcdex-e-b-c-d-x-a"


def test_a_child_follows_its_row_and_the_list_does_not_follow_the_child(module: Module) -> None:
    script = """
      const rows = signal([{ id: "a", n: 1 }]), other = signal(0);
      let lists = 0;
      each(parent, () => { lists += 1; return rows.value; }, (row) => row.id, (row) => {
        other.value;
        watch(() => log.push(row.value.n));
        return element(row.peek().id);
      });
      other.value = 1; await frame();
      rows.value = [{ id: "a", n: 2 }]; await frame(); await frame();
      return [log, lists];
    """

    assert module(PRELUDE + PARENT + script, None) == [[1, 2], 2]
