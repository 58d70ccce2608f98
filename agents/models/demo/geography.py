"""Turns a question about countries into SQL over the data set that ships."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agents.models.demo.arithmetic import number_in

_CONTINENTS = {
    "africa": "Africa", "african": "Africa", "asia": "Asia", "asian": "Asia", "europe": "Europe", "european": "Europe",
    "oceania": "Oceania", "pacific": "Oceania", "south america": "South America", "south american": "South America",
    "north america": "North America", "north american": "North America",
}  # fmt: skip
_ALSO = {
    "usa": "United States", "us": "United States", "u.s.": "United States", "america": "United States",
    "uk": "United Kingdom", "great britain": "United Kingdom", "britain": "United Kingdom", "england": "United Kingdom",
    "turkey": "Türkiye", "holland": "Netherlands", "czech republic": "Czechia", "ivory coast": "Côte d'Ivoire",
    "burma": "Myanmar", "swaziland": "Eswatini", "uae": "United Arab Emirates", "vatican": "Vatican City",
    "drc": "Democratic Republic of the Congo", "cape verde": "Cabo Verde", "east timor": "Timor-Leste",
}  # fmt: skip
_DENSITY = "round(population / area_km2, 1) AS people_per_km2"
_MOST = re.compile(r"\b(largest|biggest|greatest|most|highest|smallest|least|fewest|lowest|longest)\b")
_SMALL = ("smallest", "least", "fewest", "lowest")
_NAME = r"((?:the )?[A-Z][\w'’.-]*(?: (?:and |of |the |d')?[A-Z][\w'’.-]*)*)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question about countries, as SQL."""

    sql: str
    about: str
    """What it asks, for thinking aloud."""


def question_in(sentence: str) -> Question | None:
    """Return the question in ``sentence``, or None when it asks nothing the data set knows."""
    text = sentence.strip().rstrip("?.! ")
    if re.match(r"(?i)\s*(?:select|with)\s", text):
        return Question(sql=text, about="SQL, as it was written")
    lower = text.lower()
    for ask in (_neighbour_counts, _neighbours, _counts, _by_continent, _ranking, _capitals, _one_country):
        found = ask(text, lower)
        if found is not None:
            return found
    return None


def _neighbour_counts(text: str, lower: str) -> Question | None:
    if not re.search(r"\b(neighbou?rs|borders|bordering)\b", lower):
        return None
    if re.search(r"\b(no|without(?: any)?|zero)\s+(?:land )?(neighbou?rs|borders)", lower):
        where = _and_continent(lower)
        return Question(
            sql="SELECT name, continent, population FROM countries WHERE code NOT IN (SELECT country FROM borders)"
            f"{where} ORDER BY population DESC LIMIT {_limit(lower, 15)}",
            about="countries without a land border",
        )
    if not _MOST.search(lower) or ("border" in lower and re.search(r"\bborder (?:with )?[A-Z]", text)):
        return None
    order = "ASC" if any(word in lower for word in _SMALL) else "DESC"
    return Question(
        sql="SELECT c.name, count(*) AS neighbours FROM countries c JOIN borders b ON b.country = c.code"
        f"{_continent(lower, 'c.')} GROUP BY c.code ORDER BY neighbours {order}, c.name LIMIT {_limit(lower)}",
        about="who has the most neighbours" if order == "DESC" else "who has the fewest neighbours",
    )


def _neighbours(text: str, lower: str) -> Question | None:
    match = re.search(
        rf"(?:border(?:s|ing)?(?: (?:on|with|of))?|neighbou?rs? (?:of|does|to)|next to|around) {_NAME}", text
    )
    match = match or re.search(rf"{_NAME}(?:'s|’s) neighbou?rs", text)
    match = match or re.search(rf"(?:countries|countrys|who) (?:does|do) {_NAME} border", text)
    if match is None:
        return None
    names = [part for part in re.split(r" and (?=[A-Z])", match[1]) if part]
    joins = "".join(
        " AND c.code IN (SELECT neighbour FROM borders JOIN countries o ON o.code = country "
        f"WHERE {_named(name, 'o.')})"
        for name in names
    )
    return Question(
        sql=f"SELECT c.name, c.capital, c.population FROM countries c WHERE 1{joins} ORDER BY c.population DESC",
        about=f"the neighbours of {' and '.join(names)}",
    )


def _counts(text: str, lower: str) -> Question | None:
    if not re.search(r"\bhow many (?:\w+ )?(?:countries|states|nations)\b", lower):
        return None
    if re.search(r"\b(each|per|by|every) continent", lower):
        return _by_continent(text, "population by continent")
    return Question(
        sql=f"SELECT count(*) AS countries FROM countries{_continent(lower)}",
        about=f"how many countries there are{_in_continent(lower)}",
    )


def _by_continent(text: str, lower: str) -> Question | None:
    if not re.search(r"\b(continents\b|(?:by|per|each|every) continent)", lower):
        return None
    return Question(
        sql="SELECT continent, count(*) AS countries, sum(population) AS population, "
        "CAST(sum(area_km2) AS INTEGER) AS area_km2 FROM countries GROUP BY continent ORDER BY population DESC",
        about="the continents, summed up",
    )


def _ranking(text: str, lower: str) -> Question | None:
    if not re.search(r"\b(countr(?:y|ies)|states?|nations?|capitals?)\b", lower):
        return None
    most = _MOST.search(lower) or re.search(r"\btop \d+\b", lower)
    if most is None and "populous" not in lower:
        return None
    order = "ASC" if any(word in lower for word in _SMALL) else "DESC"
    if re.search(r"\b(dens(?:e|ely|ity|est)|crowded|packed)\b", lower):
        column, shown, about = "population / area_km2", f"name, {_DENSITY}", "population density"
    elif re.search(r"\b(popul\w+|people|inhabitants|live)\b", lower):
        column, shown, about = "population", "name, population", "population"
    else:
        column, shown, about = "area_km2", "name, area_km2", "area"
    if "capital" in lower:
        shown = shown.replace("name,", "capital, name,")
    return Question(
        sql=f"SELECT {shown} FROM countries{_continent(lower)} ORDER BY {column} {order} LIMIT {_limit(lower)}",
        about=f"countries{_in_continent(lower)} by {about}",
    )


def _capitals(text: str, lower: str) -> Question | None:
    if "capital" not in lower:
        return None
    of = re.search(rf"capitals? of {_NAME}", text) or re.search(rf"{_NAME}(?:'s|’s) capital", text)
    if of and of[1].lower() not in _CONTINENTS:
        names = _split_names(of[1], text[of.end() :])
        where = " OR ".join(_named(name) for name in names)
        return Question(sql=f"SELECT name, capital FROM countries WHERE {where}", about=f"the capital of {of[1]}")
    city = re.search(rf"{_NAME} (?:is )?(?:the )?capital", text)
    if city:
        where = f"capital = '{_quoted(city[1])}' COLLATE NOCASE"
        return Question(sql=f"SELECT capital, name FROM countries WHERE {where}", about=f"whose capital {city[1]} is")
    where = _continent(lower)
    return (
        Question(sql=f"SELECT name, capital FROM countries{where} ORDER BY name", about="capitals") if where else None
    )


def _one_country(text: str, lower: str) -> Question | None:
    of = rf"(?:of |are |in |is |does )*(?:live )?(?:in )?{_NAME}"
    named = rf"(?:population|area|size|density|people|inhabitants|live|lives) {of}"
    match = re.search(named, text) or re.search(
        rf"(?:how (?:big|large|populous) is|about|compare|tell me about) {_NAME}", text, re.I
    )
    match = match or re.search(rf"{_NAME}(?:'s|’s) (?:population|area|size)", text)
    if match is None or match[1].removeprefix("the ")[:1].islower():
        return None
    names = _split_names(match[1], text[match.end() :])
    where = " OR ".join(_named(name) for name in names)
    return Question(
        sql=f"SELECT name, capital, continent, population, area_km2, {_DENSITY} FROM countries WHERE {where}",
        about=" and ".join(names),
    )


def _split_names(first: str, rest: str) -> list[str]:
    """Return the names in "Peru, Chile and Bolivia", whose first was found already."""
    names = re.split(r" and (?=[A-Z])", first)
    for more in re.findall(rf"(?:,| and| with| or| to) {_NAME}", rest):
        names += re.split(r" and (?=[A-Z])", more)
    return names[:10]


def _named(name: str, table: str = "") -> str:
    plain = re.sub(r"^the ", "", name.strip(" .,"), flags=re.IGNORECASE)
    plain = _ALSO.get(plain.lower(), plain)
    return f"{table}name = '{_quoted(plain)}' COLLATE NOCASE"


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _continent(lower: str, table: str = "") -> str:
    for word in sorted(_CONTINENTS, key=len, reverse=True):
        if re.search(rf"\b{word}\b", lower):
            return f" WHERE {table}continent = '{_CONTINENTS[word]}'"
    return ""


def _and_continent(lower: str) -> str:
    return _continent(lower).replace(" WHERE", " AND", 1)


def _in_continent(lower: str) -> str:
    where = _continent(lower)
    return f" in {where.split(chr(39))[1]}" if where else ""


def _limit(lower: str, default: int = 5) -> int:
    number = number_in(lower)
    if number is None:
        return default if re.search(r"countries|states|nations|capitals", lower) or default != 5 else 1
    return max(1, min(number, 50))
