"""Tasks of the shop: some have an agent do something, and one is an agent's tool."""

import os
from typing import Any

from celery import Task

from callboard_client import Callboard, EndEvent
from config.celery_app import app

callboard = Callboard(os.environ["SHOP_CALLBOARD"], os.environ.get("SHOP_CALLBOARD_KEY"))
"""One a process; a child of the prefork pool opens connections of its own."""


class NoAnswer(Exception):
    """The run ended without an answer."""


@app.task(bind=True)
def ask_clerk(self: Task, question: str) -> Any:
    """Ask the agent and return its answer; a task that Celery delivers again continues with the same run."""
    handle = callboard.run("clerk", question, idempotency_key=f"ask_clerk {self.request.id}")
    return answer_of(handle.result(timeout_s=120))


@app.task(bind=True)
def start_clerk(self: Task, question: str) -> str:
    """Start a run and return its id; no process of the shop waits for it."""
    return callboard.run("clerk", question, detached=True, idempotency_key=f"start_clerk {self.request.id}").run_id


@app.task(bind=True, max_retries=100, default_retry_delay=2)
def fetch_answer(self: Task, run_id: str) -> Any:
    """Return the answer of a run once it has ended; until then Celery repeats the task."""
    try:
        end = callboard.handle(run_id).result(timeout_s=1)
    except TimeoutError as error:
        raise self.retry() from error
    return answer_of(end)


@app.task
def reserve(title: str, copies: int) -> str:
    """Reserve copies of a book; an agent has it as a tool (callboard_tasks/shop.yaml)."""
    return f"{copies} copies of {title} are reserved"


def answer_of(end: EndEvent) -> Any:
    """Return what the run has for an answer."""
    if end.status != "succeeded":
        raise NoAnswer(f"run {end.run_id} ended as {end.status}: {end.reason}")
    return end.output
