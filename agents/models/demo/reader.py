"""The demo model as a stream: it sends an answer word by word, in this process, without LiteLLM.

An answer is reasoning, then tool calls or text. ``demo/assistant`` speaks as fast as most models, ``demo/instant``
without any wait; ``params: {words_per_s: 20}`` sets another pace.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count, cycle, islice
from typing import TYPE_CHECKING, Any

from agents.models.call import PROMPT_VALIDATION
from agents.models.demo.goals import HANDED_OVER, left_of
from agents.models.demo.schema_filler import fill
from agents.models.demo.tool_calls import RULES, Offer, calls_in, command_in, lookup_in, offers_of
from agents.models.errors import ModelFailed
from agents.models.scripted import Call, Turn, TurnReader, words
from agents.models.streams.chunk import Chunk, Usage

if TYPE_CHECKING:
    from agents.models.call import ModelCall


WORDS_PER_S = 90.0
"""How fast it speaks; thoughts come twice as fast, and pieces of a call six times."""
SLOW = 15
"""How many times slower "slowly" is."""
_VARIED = (0.55, 1.3, 0.8, 1.05, 1.6, 0.7, 1.0)
"""Steady words look mechanical."""


class DemoReader(TurnReader):
    """Reads the answer to one call, a word at a time."""

    def __init__(self, call: ModelCall) -> None:
        turn = answer(call)
        super().__init__(turn)
        *pieces, last = self.chunks
        last.usage = Usage(
            input_tokens=sum(len(text_of(message).split()) for message in call.messages),
            output_tokens=len(pieces),
            reasoning_tokens=sum(piece.reasoning != "" for piece in pieces),
        )
        pace = call.params.get("words_per_s", 0 if call.model.endswith("instant") else WORDS_PER_S)
        sentence = next((text_of(each) for each in reversed(call.messages) if each.get("role") == "user"), "")
        is_slow = "slow" in sentence.lower() and not turn.calls
        is_paced = isinstance(pace, int | float) and pace > 0
        self._per_word_s = (SLOW if is_slow else 1) / pace if is_paced else 0.0
        self._varied = cycle(_VARIED)

    async def pause(self, chunk: Chunk | None) -> None:
        await asyncio.sleep(self.seconds_before(chunk) if chunk else 0)

    def seconds_before(self, chunk: Chunk) -> float:
        if chunk.tools:
            return self._per_word_s / 6
        if not (chunk.text or chunk.reasoning):
            return 0
        return next(self._varied) * self._per_word_s / (2 if chunk.reasoning else 1)


MAX_CHARS = 600
"""How much of a sentence is read: its patterns are simple ones, and slow on long texts."""
MAX_EXAMPLES = 8
_ALWAYS = ("Think hard and write 120 words", "Fail once")
_WORDS = re.compile(r"\bwrite (\d{1,4}) words\b", re.IGNORECASE)
_GREETING = re.compile(r"(?:hello|hi|hey|good (?:morning|day|evening))(?: there)?[.!]?", re.IGNORECASE)
_SAY = re.compile(r"say[:,]?\s+(.+)", re.IGNORECASE | re.DOTALL)
_DATA_AT_END = re.compile(r"([^\n{\[]{1,80}): ([\[{][^\n]*)\Z")
_FAIL = re.compile(r"(?:please )?fail\b(?: (once|halfway))?", re.IGNORECASE)
NOTE = (
    "*I am the demo model, a small program and not a language model. "
    "Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY and start again for a real one.*"
)
_OFF_GOAL = re.compile(r"\boff[ -]topic\b|\b(?:ignore|forget) (?:all |the |your ){0,3}instructions\b", re.IGNORECASE)
REFUSED = "That is not what this agent is for. Its guard is the demo model, which refuses `off topic` and nothing more."
NOT_KNOWN = "I know only a few kinds of short sentences. These work here:"
THOUGHTS = (
    "I look for numbers, then for places, then for the names of files. A language model would weigh every word against "
    "every other here; I compare with a list. "
)
_STORY = "The stage manager pins up the next call before the bell, and the house fills."
MAX_ROWS, MAX_RESULT = 50, 2000
"""Rows of a table and characters of another result that are shown."""

PlannedCall = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""


def answer(call: ModelCall) -> Turn:
    """Return the answer to ``call``: the same each time, but for "fail once"."""
    if call.is_summary:
        return Turn(text=summary_of(call))
    start = max((at for at, each in enumerate(call.messages) if each.get("role") == "user"), default=0)
    before, questions, after = call.messages[:start], call.messages[start : start + 1], call.messages[start + 1 :]
    sentence = "".join(map(text_of, questions)).strip()[:MAX_CHARS]
    results = _results(after)
    if (at := _handed_over(results)) is not None:
        sentence, results = left_of(sentence), results[at + 1 :]
    calls, text = _plan(call, sentence, results)
    reasoning = THOUGHTS if "think hard" in sentence.lower() and not results else ""
    if calls:
        reasoning += "".join(f"This is for {': '.join((name, *_shown(arguments)))}. " for name, arguments in calls)
        return Turn(
            reasoning=reasoning, calls=[_wire_call(call, position, *each) for position, each in enumerate(calls)]
        )
    schema = call.response_format.get("json_schema") if isinstance(call.response_format, Mapping) else None
    if schema is not None and schema.get("name") == PROMPT_VALIDATION:
        text = json.dumps(validation_of("".join(map(text_of, questions))))
    elif schema is not None:
        text = json.dumps(fill(schema["schema"], sentence), ensure_ascii=False, indent=2)
    elif not _WORDS.search(sentence) and not any(each.get("role") == "assistant" for each in before):
        text = f"{text}\n\n{NOTE}"
    return Turn(reasoning=reasoning, text=text, **_failure(call, sentence, text))


PINNED = "\n- "
"""What is before each name of a fact that a summary begins with."""
MAX_SAID, MAX_SENTENCES = 120, 10
"""Characters of each sentence that a summary repeats, and how many of the newest."""
SAID, THEN = "The users said: ", "Then: "


def _shown(arguments: Mapping[str, Any]) -> list[str]:
    """Return the values of a call's arguments as one text; none where it has none."""
    return [", ".join(map(str, arguments.values()))] if arguments else []


def summary_of(call: ModelCall) -> str:
    """Return a summary of a record in JSON lines: the pinned facts that it states plainly, and what users said."""
    task, record = map(text_of, call.messages[:2])
    lines = [_data(line) for line in record.splitlines()]
    sentences = [str(line.get("text", "")) for line in lines if isinstance(line, dict) and line.get("role") == "user"]
    earlier = [line for line in record.splitlines() if line.startswith((SAID, THEN))]
    facts = [f"{name}: {_stated(name, sentences)}" for name in task.split(PINNED)[1:]]
    quoted = " ".join(f"“{' '.join(text.split())[:MAX_SAID]}”" for text in sentences[-MAX_SENTENCES:])
    return "\n".join([*facts, *earlier[-MAX_SENTENCES:], f"{THEN if earlier else SAID}{quoted}"])


def _stated(name: str, sentences: Sequence[str]) -> str:
    """Return what the newest sentence says that a fact of this name is; ``-`` where none does."""
    for text in reversed(sentences):
        _, verb, rest = text[:MAX_CHARS].partition(f"{name} is ")
        if verb:
            return rest.split(". ")[0].split("\n")[0].rstrip(".")
    return "-"


def validation_of(question: str) -> dict[str, Any]:
    """Return the verdict on the input in a prompt guard's question: it fails where it says what the rule names."""
    texts = json.loads(question)["input"]
    is_refused = any(_OFF_GOAL.search(text) for text in texts)
    return {"validationResult": not is_refused, "validationFailedReason": REFUSED if is_refused else ""}


def _failure(call: ModelCall, sentence: str, text: str) -> dict[str, Any]:
    """Return the error of a turn that the sentence asks for, and the pieces before it."""
    failing = _FAIL.match(sentence)
    manner = (failing[1] or "at once").lower() if failing else None
    if manner is None or (manner == "once" and next(_attempts(repr(call.messages)))):
        return {}
    error = ModelFailed(f"the call of '{call.model}' failed: the demo model was asked to fail.", model=call.model)
    return {"error": error, "error_after": len(words(text)) // 2 if manner == "halfway" else 0}


@lru_cache(maxsize=256)
def _attempts(_messages: str) -> Iterator[int]:
    """Return the counter of the attempts to answer these messages in this process."""
    return count()


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, also of one in parts."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def _plan(call: ModelCall, sentence: str, results: Sequence[tuple[str, Any]]) -> tuple[list[PlannedCall], str]:
    """Return the calls to make next, or what to say."""
    offers = offers_of(call)
    unknown = [offer for name, offer in offers.items() if name not in RULES]
    command = command_in(sentence, offers.values(), shipped=RULES)
    calls = [] if command else calls_in(sentence, offers, dict(results))
    if calls or results:
        return calls, "\n\n".join(rendered(*each) for each in results)
    command = command or (None if _GREETING.fullmatch(sentence) else lookup_in(sentence, unknown))
    if command is None:
        text = _said(sentence) or (_of_data(sentence) if not offers else "")
        return [], text or listed(NOT_KNOWN, _examples(offers, call.starters))
    offer, arguments, is_whole = command
    if is_whole:
        return [(offer.name, arguments)], ""
    opening = f"Nothing was done: `{offer.name}` needs each value plainly. Say just this:"
    return [], listed(opening, [offer.command(arguments)])


def _said(sentence: str) -> str:
    """Return the answer to a sentence that needs no tool; empty for one that is not understood."""
    if words := _WORDS.search(sentence):
        return story(int(words[1]))
    if echo := _SAY.fullmatch(sentence):
        return echo[1]
    return "This time it worked: the model call failed before and was tried again." if _FAIL.match(sentence) else ""


def _of_data(sentence: str) -> str:
    """Return what the data say that a prompt ends with, as that of a workflow's node; empty where it ends with none."""
    match = _DATA_AT_END.search(sentence)
    data = _data(match[2]) if match else None
    return f"{match[1].strip()}: {_in_words(data)}." if match and isinstance(data, dict | list) and data else ""


def _in_words(data: Any, between: str = "; ") -> str:
    """Return JSON data as a part of a sentence."""
    if isinstance(data, dict):
        return ", ".join(f"{str(name).replace('_', ' ')} {_in_words(value, ', ')}" for name, value in data.items())
    if isinstance(data, list):
        return between.join(_in_words(item, ", ") for item in data)
    return _cell(data) if not isinstance(data, bool) else ("no", "yes")[data]


def _examples(offers: Mapping[str, Offer], starters: Sequence[str]) -> list[str]:
    """Return sentences for the agent that is asked: commands to its own tools, then others.

    There are ``MAX_EXAMPLES``, or more where it has more tools of its own.
    """
    own = [offer.command({}) for name, offer in offers.items() if name not in RULES]
    shipped = [RULES[name][0] for name in offers if name in RULES]
    return list(dict.fromkeys([*own, *starters, *shipped, *_ALWAYS]))[: max(MAX_EXAMPLES, len(own))]


def _results(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """Return each tool that was called since the sentence, with its answer."""
    names = {call.get("id"): call["function"]["name"] for each in messages for call in each.get("tool_calls") or ()}
    answered = [message for message in messages if message.get("role") == "tool"]
    return [(names.get(each.get("tool_call_id"), "tool"), _data(text_of(each))) for each in answered]


def _handed_over(results: Sequence[tuple[str, Any]]) -> int | None:
    """Return which result is the last hand-over: before it another agent had the conversation. None: there is none."""
    handovers = (at for at, (name, result) in enumerate(results) if name == "ChangeGoal" and HANDED_OVER in str(result))
    return max(handovers, default=None)


def _data(text: str) -> Any:
    try:
        return json.loads(text) if text.startswith(("{", "[")) else text
    except ValueError:
        return text


def _wire_call(call: ModelCall, position: int, name: str, arguments: Mapping[str, Any]) -> Call:
    """Return the call with an id that is the same when a lost answer is made again."""
    seed = f"{len(call.messages)}/{position}/{call.messages[-1]}"
    digest = hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()
    return Call(id=f"call_{digest[:24]}", name=name, arguments=json.dumps(arguments, ensure_ascii=False))


def story(words: int) -> str:
    """Return exactly so many words, the same ones each time."""
    return " ".join(islice(cycle(_STORY.split()), words)).rstrip(".") + "."


def listed(opening: str, sentences: Iterable[str]) -> str:
    """Return sentences that work, below an opening."""
    lines = "\n".join(f"- {sentence}" for sentence in sentences)
    return f"{opening}\n\n{lines}" + ("\n\nFor each … write a value, several words in quotes." if "…" in lines else "")


def rendered(name: str, result: Any) -> str:
    """Return a result as a table, a list of facts, a block of text or a sentence."""
    if isinstance(result, dict) and {"columns", "rows"} <= set(result):
        return _table(result["columns"], result["rows"])
    files = result.get("files") if isinstance(result, dict) else None
    if files and all(isinstance(file, dict) for file in files):
        return _table([*files[0]], [[*file.values()] for file in files])
    if isinstance(result, dict):
        return "\n".join([f"`{name}` answered:\n", *(f"- {key}: {_cell(value)}" for key, value in result.items())])
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    if "\n" in text:
        return f"`{name}` answered:\n\n```\n{text[:MAX_RESULT].rstrip().replace('```', '` ` `')}\n```"
    return f"`{name}` answered **{text[:MAX_RESULT]}**"


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    heads = [str(name).replace("_", " ") for name in columns]
    rulers = ["---:" if isinstance(cell, int | float) else "---" for cell in (rows or [heads])[0]]
    lines = [heads, rulers, *([_cell(cell) for cell in row] for row in rows[:MAX_ROWS])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "" if value is None else str(value).replace("|", "\\|")
