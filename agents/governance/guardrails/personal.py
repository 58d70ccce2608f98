"""Personal data by its form: e-mail addresses, IBANs, numbers of payment cards, telephone numbers.

IBANs and card numbers are recognised by their check digits, so other long numbers stay. Names and addresses of people
have no form and are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from config.definitions.guardrails.checks import PersonalData, compiled, flat

_EMAIL = r"\b[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"
_IBAN = r"\b[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}\b"
_CARD = r"\b(?:[3-6][0-9]|2[2-7])(?:[ -]?[0-9]){11,17}\b"
_PHONE = (
    r"\+[1-9](?:[ ().-]{0,2}[0-9]){7,14}\b|\b00[1-9](?:[ -]?[0-9]){7,14}\b"
    r"|(?:\([2-9][0-9]{2}\) ?|\b[2-9][0-9]{2}[-. ])[0-9]{3}[-. ][0-9]{4}\b"
)
PATTERNS = {
    PersonalData.EMAIL: _EMAIL,
    PersonalData.IBAN: _IBAN,
    PersonalData.CARD: _CARD,
    PersonalData.PHONE: _PHONE,
}
"""What each kind looks like, for RE2 and ``re``; a match may be none of it by its check digits."""

_IBAN_CHARS = """
    15 NO, 16 BE, 18 DK FI FO GL NL SD, 19 MK SI, 20 AT BA EE KZ LT LU MN XK, 21 CH HR LI LV,
    22 BG BH CR DE GB GE IE ME RS VA, 23 AE GI IL IQ OM SO TL, 24 AD CZ ES MD PK RO SA SE SK TN VG, 25 LY PT ST,
    26 IS TR, 27 BI DJ FR GR IT MC MR SM, 28 AL AZ BY CY DO GT HU LB NI PL SV, 29 BR EG PS QA UA, 30 JO KW MU,
    31 MT SC, 32 LC, 33 RU
"""
"""How many letters and digits an IBAN has, and the countries whose it is."""
_LENGTHS = {country: int(row.split()[0]) for row in _IBAN_CHARS.split(",") for country in row.split()[1:]}


def personal_spans(kind: PersonalData, text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has data of this kind, from left to right, without overlaps."""
    search, end_of, at = compiled(PATTERNS[kind]).search, _ENDS.get(kind), 0
    data = flat(text)
    text = data.decode()
    while (match := search(data, at)) is not None:
        start, end = match.span()
        span_end = end if end_of is None else end_of(text, start, end)
        if span_end:
            yield start, span_end
        at = span_end or _behind_group(text, start)


def _behind_group(text: str, start: int) -> int:
    """Return where the next match may begin: behind these letters and digits."""
    while start < len(text) and text[start].isalnum():
        start += 1
    return start


def _iban_end(text: str, start: int, end: int) -> int:
    """Return where the IBAN that begins here ends by its country's length; 0 where its check digits are wrong."""
    places = [at for at in range(start, end) if text[at].isalnum()]
    length = _LENGTHS.get(text[start : start + 2].upper(), 0)
    if not 0 < length <= len(places):
        return 0
    position = places[length - 1] + 1
    if position < len(text) and text[position].isalnum():
        return 0
    chars = "".join(text[at] for at in places[:length]).upper()
    digits = "".join(str(int(char, 36)) for char in chars[4:] + chars[:4])
    return position if int(digits) % 97 == 1 else 0


def _card_end(text: str, start: int, end: int) -> int:
    """Return where the longest card number that begins here ends; 0 where no check digit fits."""
    places = [at for at in range(start, end) if text[at].isdigit()]
    for count in range(min(19, len(places)), 12, -1):
        position = places[count - 1] + 1
        is_whole = position == len(text) or not text[position].isalnum()
        if is_whole and _is_luhn([int(text[at]) for at in places[:count]]):
            return position
    return 0


def _is_luhn(digits: list[int]) -> bool:
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return len(set(digits)) > 1 and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_ENDS: dict[PersonalData, Callable[[str, int, int], int]] = {
    PersonalData.IBAN: _iban_end,
    PersonalData.CARD: _card_end,
}
