"""The words and signs of the language, and what to write instead of those that Spark has and the language has not."""

from __future__ import annotations

from typing import Final

from sqlglot import TokenType

FUNCTIONS: Final = ("array_contains", "arrays_overlap", "contains", "endswith", "exists", "forall", "startswith")

SYMBOLS: Final = {
    "=": TokenType.EQ, "==": TokenType.EQ, "!=": TokenType.NEQ, "<>": TokenType.NEQ, "<": TokenType.LT,
    "<=": TokenType.LTE, ">": TokenType.GT, ">=": TokenType.GTE, "<=>": TokenType.NULLSAFE_EQ, "+": TokenType.PLUS,
    "-": TokenType.DASH, "*": TokenType.STAR, "/": TokenType.SLASH, "%": TokenType.MOD, "!": TokenType.NOT,
}  # fmt: skip

WORDS: Final = {
    "and": TokenType.AND, "or": TokenType.OR, "not": TokenType.NOT, "between": TokenType.BETWEEN, "in": TokenType.IN,
    "like": TokenType.LIKE, "escape": TokenType.ESCAPE, "is": TokenType.IS,
}  # fmt: skip

VALUES: Final = {"true": True, "false": False, "null": None}

_SUBQUERY = "subqueries are not in the language: a filter sees one record, so write the values out, as in a IN (1, 2)"
WHOLE_QUERY = "a filter is what follows WHERE: leave the rest of the query out"
_REGEXP = "regular expressions are not in the language; write LIKE, startswith, endswith or contains"
_CASE = "CASE is not in the language; write the cases with AND and OR"
_CLOCK = "the clock is not in the language; write the moment as TIMESTAMP '2026-03-01 12:30:00'"
NO_TYPE = "literals of type {word} are not in the language; there are TIMESTAMP '...', DATE '...' and X'...'"
_QUANTIFIED = "{word} is not in the language; write the comparisons one by one, with AND or OR"

#: Words that begin what Spark has and the language has not. As a name, such a word is written in backquotes.
REFUSED_WORDS: Final = {
    "select": _SUBQUERY, "from": _SUBQUERY, "where": "a filter is what follows WHERE: leave the word out",
    "case": _CASE, "when": _CASE, "then": _CASE, "else": _CASE, "end": _CASE,
    "rlike": _REGEXP, "regexp": _REGEXP, "similar": _REGEXP,
    "ilike": "ILIKE is not in the language; write LIKE, once for each spelling",
    "div": "DIV is not in the language; write / and compare with the range of the result",
    "interval": "intervals are not in the language; compare with a TIMESTAMP '...' worked out beforehand",
    "current_date": _CLOCK, "current_time": _CLOCK, "current_timestamp": _CLOCK,
    "any": _QUANTIFIED, "some": _QUANTIFIED, "all": _QUANTIFIED,
    "as": "AS belongs into CAST(... AS ...) only", "distinct": "DISTINCT belongs into IS DISTINCT FROM only",
}  # fmt: skip

#: Words that may follow a WHERE in a query: plain names here, unless they stand where an operator should.
CLAUSES: Final = frozenset(
    ("having", "group", "order", "sort", "cluster", "distribute", "limit", "offset", "union", "intersect", "except")
)

REFUSED_SYMBOLS: Final = {
    "||": "joining strings is not in the language; compare the parts one by one",
    "[": "reaching into an array is not in the language; write exists(array, x -> ...) or array_contains(array, value)",
    "]": "brackets are not in the language",
    "?": "parameter markers are not in the language; write the value itself",
    ":": "parameter markers are not in the language; write the value itself",
    "::": "casts with :: are not in the language; write the value itself",
    ";": "one filter is one condition, without a semicolon",
    "->": "an arrow belongs into exists(array, x -> ...) and forall(array, x -> ...) only",
    "&": "bit operations are not in the language; for conditions write AND",
    "&&": "&& is not in the language; write AND",
    "|": "bit operations are not in the language; for conditions write OR",
    "^": "bit operations are not in the language",
    "~": "bit operations are not in the language; for conditions write NOT",
}

USAGE: Final = {
    "startswith": "startswith(name, 'text')",
    "endswith": "endswith(name, 'text')",
    "contains": "contains(name, 'text')",
    "exists": "exists(array, x -> x > 1)",
    "forall": "forall(array, x -> x > 1)",
    "array_contains": "array_contains(array, 5)",
    "arrays_overlap": "arrays_overlap(array, array(1, 2))",
}
