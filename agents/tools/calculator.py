"""Arithmetic with Python's numbers; expressions are parsed, and only arithmetic is evaluated."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field

from agents.tools.tool import tool
from config.errors import ToolFailed
from config.text.names import did_you_mean

MAX_CHARS = 500
"""Longest expression."""
MAX_BITS = 4096
"""Largest whole number, about 1200 digits."""

_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_MATH = (math.sqrt, math.floor, math.ceil, math.exp, math.log, math.log10, math.log2, math.sin, math.cos, math.tan)
_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    **{function.__name__: function for function in (abs, min, max, *_MATH)},
    "round": lambda number, digits=0: _rounded(number, digits),
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**", "π": "pi"})
_PERCENT_OF = re.compile(r"(\d+(?:\.\d+)?)\s*%\s*of\b", re.IGNORECASE)
_PERCENT = re.compile(r"(?<=[\d)])\s*%(?=\s*(?:$|[)+*/,]))")
_ROOT = re.compile(r"√\s*(\d+(?:\.\d+)?)")


@tool(effect="pure", timeout_s=5)
def calculator(expression: Annotated[str, Field(max_length=MAX_CHARS)]) -> str:
    """Calculate an arithmetic expression and return the number.

    Knows + - * / // % ** with parentheses, "15% of 80", sqrt, abs, round, min, max, floor, ceil, exp, log,
    log10, log2, sin, cos, tan, and pi, e, tau.

    Args:
        expression: for example "17 * 23" or "sqrt(2) * (1 + 0.19)".
    """
    if len(expression) > MAX_CHARS:
        raise ToolFailed(f"the expression has {len(expression)} characters and the limit is {MAX_CHARS}.")
    try:
        tree = ast.parse(_as_python(expression), mode="eval")
        return _written(_value(tree.body))
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ToolFailed(f"{expression[:80]!r} is not arithmetic; write something like 17 * (23 + 4).") from error
    except ZeroDivisionError as error:
        raise ToolFailed("that divides by zero.") from error
    except OverflowError as error:
        raise ToolFailed("the result is too large.") from error
    except (ValueError, TypeError) as error:
        raise ToolFailed(f"that cannot be calculated: {error}.") from error


def _as_python(expression: str) -> str:
    text = expression.strip().rstrip("=?").translate(_SIGNS)
    text = _PERCENT_OF.sub(r"(\1/100)*", text)
    text = _PERCENT.sub("/100", text)
    return _ROOT.sub(r"sqrt(\1)", text).strip()


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _bounded(_BINARY[type(sign)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*(_value(argument) for argument in arguments)))
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            names = [*_FUNCTIONS, *_CONSTANTS]
            raise ToolFailed(f"'{name[:40]}' is not known here.{did_you_mean(name, names)} Known: {', '.join(names)}.")
    raise ToolFailed(f"only numbers and arithmetic are understood, not {type(node).__name__}.")


def _power(base: float, exponent: float) -> float:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        if max(base.bit_length(), 1) * exponent > MAX_BITS and abs(base) > 1:
            raise OverflowError
    elif isinstance(base, int) and base.bit_length() > 1024:
        raise OverflowError
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("a root of a negative number is not a real one")
    return _bounded(float(result) if isinstance(result, float) else result)


def _rounded(number: float, digits: float) -> float:
    places = max(-400, min(400, int(digits)))  # round(1, -10**9) would compute ten to that power
    return round(number, places) if places else round(number)


def _bounded(number: float) -> float:
    if isinstance(number, int):
        if number.bit_length() > MAX_BITS:
            raise OverflowError
    elif not math.isfinite(number):
        raise OverflowError
    return number


def _written(number: float) -> str:
    """Return whole numbers whole, others with twelve digits, which hides the noise of binary fractions."""
    if isinstance(number, int):
        return str(number)
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.12g}"
