"""The page of errors in the reference: ``python tests/errors_page.py`` rewrites it.

What a code and an error mean comes from the catalogue and from the docstrings of `tidytape.errors`; what to do about it
stands here. A new code or error without a line fails the test of the page.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import httpx
from numpydoc.docscrape import ClassDoc

from tidytape import errors
from tidytape.catalogue import ERROR_MEANING, ERROR_STATUS, StreamEnd
from tidytape.client.request import refused
from tidytape.client.steps import Answer

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"

OF_A_CODE = {
    "INVALID_PARAMS": "Read the message: it names the parameter, what it got and what it takes.",
    "INVALID_TYPE": "Take a type of [the data types](../guides/data_types.md), or of `client.types()`.",
    "INVALID_EXCHANGE": "Take an exchange of `client.exchanges()`.",
    "INVALID_SYMBOL": "Take a symbol of `client.symbols(type=…)`. Select a market by one of `raw_symbol`, "
    "`normalized_symbol` and `coin`, not by several.",
    "INVALID_INTERVAL": "Take an interval that the message names.",
    "UNSUPPORTED": "Leave out the parameter that the message names, or take one of the values that it lists.",
    "INVALID_REQUEST": "Send HTTP/1.1; an `https://` address of a service without TLS is a usual cause.",
    "INVALID_API_KEY": "Check `TIDYTAPE_API_KEY`, or ask the operator for a key: `tidytape keys new`.",
    "TYPE_NOT_PERMITTED": "Ask the operator for a key of a higher tier. `client.usage()` says what the key has.",
    "HISTORY_NOT_PERMITTED": "Let `start` be later, or take a key of a tier that reaches further back.",
    "AGGREGATION_NOT_PERMITTED": "Leave out `group_by` and join the markets with "
    "[`analytics.cross`](../guides/cross.md).",
    "POINT_LIMIT_EXCEEDED": "Ask for a shorter window or a longer interval. The client splits windows by itself.",
    "STREAM_LIMIT_EXCEEDED": "Close a stream that you no longer read.",
    "NOT_FOUND": "Check the address of the service: routes begin with `/v1/`.",
    "METHOD_NOT_ALLOWED": "Send GET.",
    "TOKEN_EXPIRED": 'Start the stream anew: `client.stream(…, on_gap="restart")`.',
    "URI_TOO_LONG": "Ask for fewer symbols at once.",
    "HEADERS_TOO_LONG": "Send fewer or shorter headers; a proxy on the way may add some.",
    "RATE_LIMITED": "Wait `retry_after` seconds. The client waits by itself, at most `max_wait`.",
    "INTERNAL_ERROR": "Try again; if it stays, give the operator the request id. The log has the traceback under it.",
    "UNAVAILABLE": "Try again after `retry_after` seconds. The client does.",
    "TIMEOUT": "Ask for a shorter window. An operator can run `tidytape rollup`, or raise `--seconds`.",
}

OF_AN_END = {
    "PERIOD_OVER": "Nothing: the stream is complete.",
    "SLOW_READER": "The client resumes by itself. Do less work per batch, or stream a longer interval.",
    "SHUTTING_DOWN": "The client resumes by itself, from another replica too.",
    "TOKEN_EXPIRED": 'Start anew: `client.stream(…, on_gap="restart")`.',
    "INVALID_API_KEY": "Take another key.",
    "INTERNAL_ERROR": "The client resumes by itself; if it stays, ask the operator.",
}

OF_AN_ERROR = {
    "TidytapeError": "Catch it to catch every error of this page.",
    "QueryError": "Correct the argument that `parameter` names. `expected` and `hint` say how.",
    "RefusedQueryError": "As `QueryError`; `code` is one of the table above.",
    "FetchError": "Catch it to catch whatever can go wrong while data is fetched.",
    "ServiceError": "Check the address of the service. Give `request_id` to its operator.",
    "AuthenticationError": "Set `TIDYTAPE_API_KEY`, or pass `api_key`; ask the operator for a new key.",
    "TierError": "Ask for what the tier includes: `code` says what it does not.",
    "RateLimitError": 'Wait `retry_after` seconds, or let the client wait: `on_limit="wait"` is the default.',
    "ServerError": "Try again later; the client already tried `attempts` times.",
    "TransportError": "Check the network and the address; raise `timeout` or `deadline` where answers take long.",
    "CertificateError": "Let `SSL_CERT_FILE` name the certificates that your network signs with.",
    "ProxyError": "Correct `HTTPS_PROXY` or `NO_PROXY`.",
    "BudgetError": "Allow a longer wait with `max_wait`, ask for less, or take a key of a larger budget. "
    "`client.plan(…)` says beforehand what a fetch weighs.",
    "DecodeError": "Check that the address is that of the service itself; report it to its operator otherwise.",
    "IncompleteDataError": 'Fetch the spans in `missing` again, or accept them: `partial="flag"`.',
    "StreamGapError": 'Start anew with `on_gap="restart"`, or fetch what happened since `over`.',
    "TapeError": "Record the study again. `tidytape tape verify` names the damaged entries.",
    "MissingColumnError": "Take a frame that has the columns in `missing`; `hint` names a call that returns one.",
    "IngestError": "Correct line `line` of the file, or leave broken lines out: `skip_bad=True`.",
    "LakeError": "Check the path and, of an object store, the credentials. `tidytape lake check` looks for damage.",
    "UnencryptedKeyWarning": "Take an `https://` address.",
    "NoMatchWarning": 'Join by columns that both frames share, e.g. `by="coin"`.',
    "SettlementWarning": "Pass this market's time between settlements as `settled_every`, or its `anchor`. If markets "
    "settle at different times, call the function for each. `hint` says when the rate changes.",
    "EmptyAnswerWarning": "Read `reasons`: they say what the service does have. `client.describe()` lists it all.",
}

_TITLE = """\
---
file_format: mystnb
kernelspec:
  name: python3
---

# Errors

Every error says in its message which parameter is wrong, what it got, what it takes, and often what you meant. Its
facts are attributes as well, so that a program need not read the message. No error holds a key.

```{code-cell} python
:tags: [remove-stderr]

import tidytape

client = tidytape.Client.demo()
try:
    client.candles(exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="2m", start="2024-08-08")
except tidytape.QueryError as error:
    print(error)
    print(error.parameter, error.got)
```

On the command line an error is one line on standard error; `--debug` adds the traceback. The exit code says what kind
of error it was: [exit codes](cli.md).

## Codes of the service

The body of every refusal is `{"error": CODE, "message": TEXT}`. Below each code stand its HTTP
status and the error that the client raises.
"""
_ENDS = """\
## Ends of a stream

The last line of a stream that the service ends has one of these codes.
"""
_ERRORS = """\
## Errors in Python

The tree, from `tidytape.errors`:
"""


def page() -> str:
    """Return the page as Markdown."""
    codes = sorted(ERROR_STATUS, key=lambda code: ERROR_STATUS[code])
    ends = [(f"`{end}`", _meaning(end), OF_AN_END[end]) for end in StreamEnd]
    tree, _, _ = inspect.cleandoc(errors.__doc__ or "").partition("::\n\n")[2].partition("\n\nWarnings")
    parts = [
        _TITLE,
        _table(
            ("code", "why", "what to do"),
            [
                (
                    f"`{code}`<br>{ERROR_STATUS[code]}, {_in_python(code)}",
                    f"{ERROR_MEANING[code]}.",
                    OF_A_CODE[code],
                )
                for code in codes
            ],
        ),
        _ENDS,
        _table(("code", "why", "what to do"), ends),
        f"{_ERRORS}\n```text\n{inspect.cleandoc(tree)}\n```",
        *(_of_an_error(kind) for kind in kinds() if not issubclass(kind, Warning)),
        "## Warnings\n\nThey are warnings of Python: `warnings.filterwarnings` silences one or makes it an error.",
        *(_of_an_error(kind) for kind in kinds() if issubclass(kind, Warning)),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def kinds() -> list[type[Exception]]:
    """Return every public error and warning, as they stand in the module."""
    exported = [getattr(errors, name) for name in errors.__all__]
    classes = [value for value in exported if inspect.isclass(value)]
    return sorted(classes, key=lambda kind: inspect.getsourcelines(kind)[1])


def _in_python(code: str) -> str:
    """Return the name of the error that the client makes of a code."""
    if code == "TOKEN_EXPIRED":  # of streams alone, which know where they were
        return "`StreamGapError`"
    answer = Answer(ERROR_STATUS[code], httpx.Headers(), f'{{"error":"{code}","message":""}}'.encode())
    return f"`{type(refused(answer, httpx.Request('GET', 'http://127.0.0.1'), 0)).__name__}`"


def _meaning(end: StreamEnd) -> str:
    """Return the sentence below an end in the source of its enumeration."""
    found = re.search(rf'\b{end.name} = .*\n\s+"""(.*?)"""', inspect.getsource(StreamEnd))
    assert found, end
    return found[1]


def _of_an_error(kind: type[Exception]) -> str:
    documented = ClassDoc(kind, config={"show_class_members": False})
    sentences = " ".join([*documented["Summary"], *documented["Extended Summary"]]).replace("``", "`")
    lines = [f"### `{kind.__name__}`", sentences, f"**What to do**: {OF_AN_ERROR[kind.__name__]}"]
    facts = [
        (f"`{fact.name}`", fact.type, " ".join(fact.desc).replace("``", "`"))
        for fact in documented["Attributes"]
    ]
    if facts:
        lines.append(_table(("attribute", "is", "meaning"), facts))
    elif bases := [f"`{base.__name__}`" for base in kind.__bases__ if _has_facts(base)]:
        lines.append(f"It has the attributes of {' and '.join(bases)}.")
    return "\n\n".join(lines)


def _has_facts(kind: type[BaseException]) -> bool:
    """Return whether an error, or one that it is a case of, has attributes of its own."""
    ours = [base for base in kind.__mro__ if base.__module__ == errors.__name__]
    return any(ClassDoc(base, config={"show_class_members": False})["Attributes"] for base in ours)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
