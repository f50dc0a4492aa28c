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
from tidytape.client._request import refused
from tidytape.client._steps import Answer

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "errors.md"

OF_A_CODE = {
    "INVALID_PARAMS": "Read the message: it names the parameter, your value and the allowed values.",
    "INVALID_TYPE": "Use one of [the data types](../guides/data_types.md), or of `client.types()`.",
    "INVALID_EXCHANGE": "Use an exchange of `client.exchanges()`.",
    "INVALID_SYMBOL": "Use a symbol of `client.symbols(type=…)`. Select a market by exactly one of `raw_symbol`, "
    "`normalized_symbol` and `coin`.",
    "INVALID_INTERVAL": "Use an interval that the message names.",
    "UNSUPPORTED": "Remove the parameter that the message names, or use one of the values that it lists.",
    "INVALID_REQUEST": "Send HTTP/1.1. A usual cause is an `https://` address of a service without TLS.",
    "INVALID_API_KEY": "Check `TIDYTAPE_API_KEY`, or ask the operator for a key (`tidytape keys new`).",
    "TYPE_NOT_PERMITTED": "Ask the operator for a key of a higher tier. "
    '`client.plan(query, tier="advanced")` shows whether a tier includes a query.',
    "HISTORY_NOT_PERMITTED": "Use a later `start`, or a key of a tier with a longer history.",
    "AGGREGATION_NOT_PERMITTED": "Remove `group_by`, and combine the markets with "
    "[`analytics.cross`](../guides/cross.md).",
    "POINT_LIMIT_EXCEEDED": "Request a shorter window or a longer interval. The client splits long windows by itself.",
    "STREAM_LIMIT_EXCEEDED": "Close a stream that you no longer read.",
    "NOT_FOUND": "Check the address of the service: routes begin with `/v1/`.",
    "METHOD_NOT_ALLOWED": "Send GET.",
    "TOKEN_EXPIRED": 'Start the stream again with `client.stream(…, on_gap="restart")`.',
    "URI_TOO_LONG": "Request fewer symbols at once.",
    "HEADERS_TOO_LONG": "Send fewer or shorter headers. A proxy between you and the service may add some.",
    "RATE_LIMITED": "Wait `retry_after` seconds. The client does this by itself, for at most `max_wait` seconds.",
    "INTERNAL_ERROR": "Try again. If the error stays, send the request id to the operator: the log of the service has "
    "the traceback with this id.",
    "UNAVAILABLE": "Try again after `retry_after` seconds. The client does this by itself.",
    "TIMEOUT": "Request a shorter window. The operator can run `tidytape rollup`, or raise `--seconds`.",
}

OF_AN_END = {
    "PERIOD_OVER": "Nothing: the stream is complete.",
    "SLOW_READER": "The client resumes by itself. Do less work per batch, or stream a longer interval.",
    "SHUTTING_DOWN": "The client resumes by itself, also at another replica.",
    "TOKEN_EXPIRED": 'Start the stream again with `client.stream(…, on_gap="restart")`.',
    "INVALID_API_KEY": "Use another key.",
    "INTERNAL_ERROR": "The client resumes by itself. If the error stays, ask the operator.",
}

OF_AN_ERROR = {
    "TidytapeError": "Catch it if you want to catch all errors of this page.",
    "QueryError": "Correct the argument that `parameter` names. `expected` and `hint` say how.",
    "RefusedQueryError": "Correct the argument, as for a `QueryError`. `code` is one of the "
    "[codes of the service](#codes-of-the-service).",
    "CallError": "Write the parameter that the message names. All arguments are passed by name.",
    "UnknownNameError": "Use the method that the message names.",
    "ForkError": 'Start processes with `multiprocessing.get_context("spawn")`, for example '
    '`ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))`, and make a client in each.',
    "FetchError": "Catch it if you want to catch everything that can fail while the client fetches data.",
    "ServiceError": "Check the address of the service. Send `request_id` to the operator of the service.",
    "AuthenticationError": "Set `TIDYTAPE_API_KEY`, or pass `api_key`. Ask the operator for a new key.",
    "TierError": "Request only what the tier includes. `code` names what it does not include.",
    "RateLimitError": 'Wait `retry_after` seconds. With `on_limit="wait"`, the default, the client waits by itself.',
    "ServerError": "Try again later. The client has already tried `attempts` times.",
    "TransportError": "Check the network and the address. If answers take long, raise `timeout` or `deadline`.",
    "CertificateError": "Set `SSL_CERT_FILE` to the file with the certificates that your network uses.",
    "ProxyError": "Correct `HTTPS_PROXY` or `NO_PROXY`.",
    "BudgetError": "Pass a larger `max_wait`, request less, or use a key with a larger budget. `client.plan(…)` shows "
    "the weight of a fetch before you fetch.",
    "DecodeError": "Check that the address is the address of the service. If it is, report the error to the operator.",
    "IncompleteDataError": 'Fetch the spans in `missing` again, or pass `partial="flag"` to accept them.',
    "StreamGapError": 'Start the stream again with `on_gap="restart"`, or fetch the data since `over`.',
    "TapeError": "Record the study again. `tidytape tape verify` names the damaged entries.",
    "MissingColumnError": "Pass a frame that has the columns in `missing`. `hint` names a call that returns one.",
    "IngestError": "Correct line `line` of the file, or pass `skip_bad=True` to leave broken lines out. An example of "
    "the message: `trades.csv:3: the price 'abc' is not a finite number; skip_bad=True leaves them out`.",
    "LakeError": "Check the path. If the lake is in an object store, check the credentials too. `tidytape lake check` "
    "looks for damage. An example of the message begins with `no lake at /data/lake: nothing is there`.",
    "UnencryptedKeyWarning": "Use an `https://` address.",
    "NoMatchWarning": 'Join by columns that both frames have, e.g. `by="coin"`.',
    "SettlementWarning": "Pass the time between two settlements of this market as `settled_every`, or pass its "
    "`anchor`. If markets settle at different times, call the function for each market. `hint` says when the rate "
    "changes.",
    "SurvivorWarning": "Ask a service that tells the last event of its markets, as tidytape's does, or leave these "
    "markets out of the study: `last_timestamp` is null in their rows.",
    "GapWarning": "If the market closes at times, pass its `session`. Else `quality.gaps` lists the gaps; "
    "`aggregate.gapfill` fills them where nothing traded.",
    "EmptyAnswerWarning": "Read `reasons`: they say which data the service has. `client.describe()` lists all data.",
}

_TITLE = """\
---
file_format: mystnb
kernelspec:
  name: python3
---

# Errors

The message of a `QueryError` names the wrong parameter, your value, the allowed values, and often the value that you
probably meant. The same information is in attributes, so a program need not parse the message. No message and no
attribute contains the API key.

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

A program usually needs three cases:

| catch | and then |
| --- | --- |
| `QueryError`, `MissingColumnError` | correct the call |
| `RateLimitError`, `ServerError`, `TransportError` | try again later; the client has already tried several times |
| any other `FetchError`, such as `AuthenticationError` or `TierError` | stop: read "What to do" below |

`CertificateError` and `ProxyError` are kinds of `TransportError`; for them change the settings of your network.

On the command line an error is one line on standard error; `--debug` adds the traceback. The
[exit code](cli.md) shows the kind of the error.

## Codes of the service

The body of every refusal is `{"error": CODE, "message": TEXT}`; the refusal of a wrong query also has `parameter`,
`got`, `expected` and `hint`, in which parameters stand in double backticks. Each cell of the first column has the
code, the HTTP status, and the Python error. A request with `TIMEOUT` costs its weight; a request with any other code
costs nothing.
"""
_ENDS = """\
## Ends of a stream

If the service ends a stream, the last line of the stream has one of these codes.
"""
_ERRORS = """\
## Errors in Python

The classes of `tidytape.errors`:
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
        "## Warnings\n\nThese are Python warnings: `warnings.filterwarnings` silences a warning or makes it an error.",
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
        lines.append(_table(("attribute", "type", "meaning"), facts))
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
