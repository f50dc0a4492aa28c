"""``tidytape fetch``, ``plan``, ``markets`` and ``usage``: from a service or a lake, to a file or the terminal.

It imports the client, so it is imported when one of these commands is used.

Each command calls a method of the client. Its options are the parameters of the method, and their help is what the
method's docstring says of these.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import polars as pl
import typer

from tidytape.budget import weight
from tidytape.cli._examples import add_examples
from tidytape.cli._output import Json, check_target, put, put_json, put_names
from tidytape.client._budget import Usage
from tidytape.client._display import spans
from tidytape.client._lists import ListMethods
from tidytape.client._series import SeriesMethods
from tidytape.client._settings import MAX_WAIT, OnLimit, Partial
from tidytape.errors import QueryError, TidytapeError, counted, escaped, worded
from tidytape.query._values import Names, TimeLike, written_time
from tidytape.wire._decode import Absent

if TYPE_CHECKING:
    import polars as pl

    from tidytape.client._metadata import Metadata
    from tidytape.client._plans import Plan


app, plans, lists = (typer.Typer(rich_markup_mode=None) for _ in range(3))

Lake = Annotated[str | None, typer.Option(help="Fetch from this lake, without a service.")]
BaseUrl = Annotated[
    str | None, typer.Option(envvar="TIDYTAPE_BASE_URL", help="Fetch from the service at this address.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="TIDYTAPE_API_KEY", show_envvar=True, help="Key of the service; safer in the environment."
    ),
]
Cache = Annotated[
    bool | None,
    typer.Option(
        "--cache/--no-cache",
        help="Store final points, and do not fetch them again; services only. By default on, except for a service on "
        "this machine.",
        show_default=False,
    ),
]
Offline = Annotated[
    bool, typer.Option("--offline", help="Use only the cache and send nothing; services only.")
]
OnLimitOption = Annotated[
    OnLimit,
    typer.Option(help="If the budget of the key is used up: wait, or raise an error; services only."),
]
MaxWait = Annotated[
    float,
    typer.Option(help="Longest time to wait for the budget; inf allows any wait. [s]"),
]
PartialOption = Annotated[
    Partial,
    typer.Option(
        help="If a part is missing: raise an error, or flag it: write the rest, name the missing part, and end with "
        "exit code 1."
    ),
]
AbsentOption = Annotated[
    Absent,
    typer.Option(
        help="What it means if a point lacks a number that every point should have, such as a volume: null, or zero "
        "for a service that leaves out zeros."
    ),
]
TierOption = Annotated[
    str | None,
    typer.Option(
        help="Plan for a key of this tier, basic, advanced or enterprise, with a full budget; this needs neither a "
        "lake nor a service. Exit code 1 if the tier refuses it."
    ),
]
_NOWHERE = "http://127.0.0.1"
"""The address of a client that sends nothing."""
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Out = Annotated[
    Path | None, typer.Option(help="File ending in .parquet, .csv or .jsonl; by default the terminal.")
]


def _client(
    *,
    lake: Lake = None,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
    cache: Cache = None,
    offline: Offline = False,
    on_limit: OnLimitOption = "wait",
    max_wait: MaxWait = MAX_WAIT,
    partial: PartialOption = "raise",
    absent: AbsentOption = "null",
    quiet: Quiet = False,
) -> Any:
    """Return the client for the options that all commands of this module have: the parameters of this function."""
    from tidytape.client import Client

    if lake is None and base_url is None:
        raise QueryError(
            "lake",
            got=None,
            expected="a lake, or ``base_url`` and a key of a service",
            hint="TIDYTAPE_BASE_URL and TIDYTAPE_API_KEY in the environment will do",
        )
    if lake is not None:
        return Client.local(lake, progress=False if quiet else None)
    return Client(
        base_url,
        api_key,
        cache=cache,
        offline=offline,
        on_limit=on_limit,
        max_wait=max_wait,
        partial=partial,
        absent=absent,
        progress=False if quiet else None,
    )


def _command(method: FunctionType) -> Callable[..., None]:
    """Return a command that calls a method of the client, and writes or prints what the method returns."""
    name = method.__name__
    client_options = inspect.signature(_client, eval_str=True).parameters

    def command(*, out: Path | None, as_json: bool, **arguments: Any) -> None:
        check_target(out)
        with _client(**{option: arguments.pop(option) for option in client_options}) as client:
            if hasattr(client.query, name):
                fetched = client.fetch(getattr(client.query, name)(**arguments))
                _put(fetched.frame, out, as_json=as_json)
                _print_cost(fetched.metadata)
                return
            answer = getattr(client, name)(**arguments)
        _put(answer, out, as_json=as_json, column=_COLUMNS.get(name, ""))

    output_options = [_option("out", Out, None), _option("as_json", Json, default=False)]
    options = [*_options(method), *output_options, *client_options.values()]
    return _with_options(command, method, options)


def _put(answer: Any, out: Path | None, *, as_json: bool, column: str = "") -> None:
    """Write or print what a method returned: a frame, a list of names, or the usage of the budget."""
    if as_json:
        is_usage = isinstance(answer, Usage)
        put_json({**asdict(answer), "reset": written_time(answer.reset)} if is_usage else answer)
    if as_json and out is None:
        return
    if isinstance(answer, list):
        put_names(answer, column, out)
    else:
        put(answer if isinstance(answer, pl.DataFrame) else pl.DataFrame([answer]), out)


def _print_cost(metadata: Metadata) -> None:
    """Print what a fetch cost; raise TidytapeError if a part is missing."""
    typer.echo(f"{counted(metadata.requests, 'request')}, weight {metadata.weight:,}", err=True)
    if metadata.missing:
        raise TidytapeError(f"missing {spans(metadata.missing)}: {metadata.failures[0].marked}")


def _plan_command(method: FunctionType) -> Callable[..., None]:
    """Return a command that prints the requests, and their weight, that a method of the client would send."""
    client_options = inspect.signature(_client, eval_str=True).parameters

    def command(*, as_json: bool, tier: str | None, **arguments: Any) -> None:
        options = {option: arguments.pop(option) for option in client_options}
        if tier and options["lake"] is None and options["base_url"] is None:
            options.update(base_url=_NOWHERE, api_key="no key")
        with _client(**options) as client:
            plan = client.plan(getattr(client.query, method.__name__)(**arguments), tier=tier)
        if as_json:
            put_json(_plan_as_json(plan))
        else:
            _print_plan(plan)
        if plan.refusal:
            raise typer.Exit(1)

    return _with_options(
        command,
        method,
        [
            *_options(method),
            _option("tier", TierOption, None),
            _option("as_json", Json, default=False),
            *client_options.values(),
        ],
        help=f"What 'fetch {method.__name__.replace('_', '-')}' would cost.\n\nIt sends no request that has weight.",
    )


def _print_plan(plan: Plan) -> None:
    """Print the requests and the summary of a plan; if the tier refuses the plan, print only the refusal."""
    if not plan.refusal:
        if plan.cached:
            typer.echo(f"from the cache: {spans(plan.cached)}")
        for query in plan.requests:
            window = f"{written_time(query.start)}  {written_time(query.end)}"
            typer.echo(f"{window}  {query.points:>7,} points  weight {weight(query)}")
    typer.echo(escaped(str(plan), keep="\n"))


def _plan_as_json(plan: Plan) -> dict[str, Any]:
    def window(start: int, end: int) -> dict[str, str]:
        return {"start": written_time(start), "end": written_time(end)}

    return {
        "weight": plan.weight,
        "weight_at_most": plan.weight_at_most,
        "seconds": plan.seconds,
        "tier": plan.tier,
        "refusal": plan.refusal,
        "cached": [window(*span) for span in plan.cached],
        "requests": [
            {**window(query.start, query.end), "points": query.points, "weight": weight(query)}
            for query in plan.requests
        ],
    }


def _with_options(
    command: Callable[..., None],
    method: FunctionType,
    options: list[inspect.Parameter],
    *,
    help: str | None = None,
) -> Callable[..., None]:
    """Give a command its options, from which Typer makes the command line, and its name and help."""
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__name__ = method.__name__
    command.__doc__ = help or worded(_prose(method), _option_named)
    return command


_COLUMNS = {
    "types": "type",
    "exchanges": "exchange",
    "categories": "category",
    "coins": "coin",
    "symbols": "raw_symbol",
    "normalized_symbols": "normalized_symbol",
    "tenors": "tenor",
}
"""By method that returns a list of names, the column to which a file gets them."""


def _options(method: FunctionType) -> Iterator[inspect.Parameter]:
    """Yield the options of a command: the parameters of its method, with types that a command line can spell."""
    hints = get_type_hints(method, localns={"Names": Names, "TimeLike": TimeLike})
    texts = dict(_PARAMETER.findall(inspect.getdoc(method) or ""))
    for name, parameter in inspect.signature(method).parameters.items():
        if name == "self":
            continue
        is_repeatable = hints[name] == Names
        text = " ".join(texts.get(name, "").split()) + (" May be repeated." if is_repeatable else "")
        option_type = _option_type(hints[name], is_repeatable=is_repeatable)
        # With its own flag, a boolean option gets no counterpart ``--no-...``.
        flag = [f"--{name.replace('_', '-')}"] if option_type is bool else []
        yield _option(
            name,
            Annotated[
                option_type | None if parameter.default is None else option_type,
                typer.Option(*flag, help=worded(text, _option_named)),
            ],
            parameter.default,
        )


_PARAMETER = re.compile(r"^(\w+) : .+\n((?:    .+\n?)+)", re.MULTILINE)
"""Matches a parameter in a docstring: its name, and the indented lines that describe it."""


def _prose(method: FunctionType) -> str:
    """Return the docstring of a method up to its first section; empty if Python runs without docstrings (``-OO``)."""
    return re.split(r"\n\n\w[\w ]*\n-+\n", inspect.getdoc(method) or "")[0]


def _option_type(hint: Any, *, is_repeatable: bool) -> Any:
    if is_repeatable:
        return list[str]
    # All other types, such as times, are passed as text, which the query reads.
    return {bool: bool, int | None: int}.get(hint, str)


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _option_named(name: str) -> str:
    """Return the option for the name of a parameter; return any other text unchanged."""
    return f"--{name.replace('_', '-')}" if name in _NAMES else name


def _methods(kind: type) -> Iterator[FunctionType]:
    """Yield the public methods of a class and of its bases, in the order of the source."""
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, FunctionType) and not name.startswith("_"):
                yield member


_NAMES = {
    name
    for method in (*_methods(SeriesMethods), *_methods(ListMethods))
    for name in inspect.signature(method).parameters
}
"""The names of the parameters of all commands."""

for _method in _methods(SeriesMethods):
    plans.command(_method.__name__.replace("_", "-"))(_plan_command(_method))
for _method in (*_methods(SeriesMethods), *_methods(ListMethods)):
    group = lists if _method.__name__ in {"markets", "usage"} else app
    group.command(_method.__name__.replace("_", "-"))(_command(_method))
add_examples(app, "fetch")
add_examples(plans, "plan")
