"""Compute and store minutes: only new or changed ones, batch by batch, each batch one commit.

A batch holds the next minutes of as many markets as memory allows. Minutes that replace others are a batch by
themselves. So are minutes of a book, because they may have far more rows than its events.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from deltalake import DeltaTable, Transaction
from tqdm.auto import tqdm

from tidytape.errors import LakeError, TidytapeError, counted
from tidytape.lake import _commit, _delta
from tidytape.lake._tables import TRADES
from tidytape.lake.rollup._recipes import RECIPES, Ask, Recipe, of_trades
from tidytape.lake.rollup._state import WHOLE, State, changed_since, edition, stale, state_of
from tidytape.times import DAY, MINUTE, Span

if TYPE_CHECKING:
    from tidytape.lake._lake import Lake
    from tidytape.lake._writer import LakeWriter


MarketName = tuple[str, str]
"""Exchange and symbol."""

_LONGEST = 92 * DAY
"""Most minutes of a market that one batch makes, or replaces span by span. [ns]"""

_PATCHES = 100
"""Most spans of a market that one batch replaces."""

_EVENTS = 10_000_000
"""About how many raw events one batch reads: as many as memory has room for."""


_WORTH_SHARING = 100_000
"""From about how many events on a batch is computed for several tables at once."""

_WAITING = 2**20
"""Most minutes that wait for the batches of the other tables. [rows]"""


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What a rollup wrote to one table of minutes.

    Attributes
    ----------
    table : str
        Name of the table.
    markets : int
        Number of markets that have such events.
    rows : int
        Number of rows that were written.
    """

    table: str
    markets: int
    rows: int

    def __str__(self) -> str:
        return f"{self.table}: {counted(self.rows, 'row')} written, {counted(self.markets, 'market')}"


def rollup(lake: Lake, *, progress: bool | None = None, is_complete: bool = False) -> tuple[RolledUp, ...]:
    """Compute the minutes of every market and store them, so that queries need not read its events.

    It computes only minutes that are new since the last rollup. A process may be killed at any time, and several may
    run at once: a batch of minutes is committed together with the note that it is stored, or not at all. It leaves the
    minute of a market's newest event to the next rollup, because the minute may get more events. If it cannot compute
    the minutes of one market, it goes on with the other markets.

    Parameters
    ----------
    lake : Lake
        The lake to read the events from and to write the minutes to.
    progress : bool, optional
        Show a bar on the standard error; by default if that is a terminal.
    is_complete : bool
        Whether no more events are expected, as in an archive. Then the minute of each market's newest event is computed
        too, so that no query needs to read its events. Events that do come later are not lost: the minutes that they
        change are computed anew.

    Returns
    -------
    tuple of RolledUp, one per table of minutes

    Raises
    ------
    LakeError
        If the lake cannot be read or written. If the minutes of a market cannot be computed; those of all others are
        stored. If a table has a column that this release does not know; nothing is stored.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> from tidytape.lake import Lake
    >>> lake = Lake.create(tempfile.mkdtemp())
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "X", "raw_symbol": "BTCUSDT", "id": ["1", "2"], "timestamp": [0, 60 * 10**9],
    ...         "sequence": [1, 2], "side": "BUY", "price": 10.0, "amount": 1.0, "quote_amount": 10.0,
    ...     }
    ... )
    >>> _ = lake.writer().append("trades", trades, source="by hand")
    >>> rollup(lake)[0].rows, rollup(lake)[0].rows
    (1, 0)
    """
    writer = lake.writer()
    block_sizes = lake.markets().select("exchange", "raw_symbol", "block_size").drop_nulls().rows()
    sizes = {(exchange, symbol): Decimal(repr(size)) for exchange, symbol, size in block_sizes}
    for name, recipe in RECIPES.items():  # before the first commit
        if lake.has_table(recipe.raw.name):
            _delta.require_readable(lake.delta(recipe.raw.name), recipe.raw)
        if lake.has_table(name):
            _delta.require_writable(lake.delta(name), recipe.table)
    makers = [_Maker(writer, recipe, sizes, is_complete=is_complete) for recipe in RECIPES.values()]
    first_of_trades, *others_of_trades = (maker for maker in makers if maker.recipe.raw is TRADES)
    first_of_trades.beside = others_of_trades
    due_markets = [maker.due() for maker in makers]
    with tqdm(
        total=sum(map(len, due_markets)),
        unit=" markets",
        disable=None if progress is None else not progress,
    ) as bar:
        for maker, markets in zip(makers, due_markets, strict=True):
            bar.set_description(maker.table.name)
            maker.progress = bar.update
            maker.make(markets)
    for maker in makers:
        maker.note_whole()
    failures = [(maker.table.name, *failure) for maker in makers for failure in maker.failed]
    if failures:
        table, market, error = failures[0]
        others = f"; so did {len(failures) - 1} more" if len(failures) > 1 else ""
        raise LakeError(
            f"rollup: {table} {' '.join(market)} failed: {error}{others}", path=lake.path
        ) from error
    return tuple(RolledUp(maker.table.name, len(maker.markets), maker.rows) for maker in makers)


class _Step(NamedTuple):
    """The next minutes to make of one market.

    Attributes
    ----------
    market : tuple of str
        Exchange and symbol.
    spans : list of Span
        The spans of the minutes.
    state : State
        The market's state once the minutes are stored.
    block_size : Decimal or None
        Height of the levels, if the minutes have any.
    events : float
        About how many raw events the minutes are computed from.
    replaces : bool
        Whether minutes may be stored already in these spans.
    is_last : bool
        Whether the market lacks no minutes after this step.
    """

    market: MarketName
    spans: list[Span]
    state: State
    block_size: Decimal | None
    events: float
    replaces: bool
    is_last: bool

    @property
    def span_key(self) -> tuple[object, ...]:
        """What the steps of two tables of the same events have in common: market, spans, and edition of the events."""
        return self.market, tuple(self.spans), self.state

    @property
    def key(self) -> tuple[object, ...]:
        """What the minutes of the step depend on."""
        return *self.span_key, self.block_size

    @property
    def asks(self) -> list[Ask]:
        """The minutes to ask the recipe for, by span."""
        return [Ask(*self.market, first, last, self.block_size) for first, last in self.spans]


class _Maker:
    """Makes the minutes of one table.

    Looking at each of thousands of markets takes long. So a rollup that finished all markets notes the edition of the
    raw table and the block sizes that it used, and the next rollup looks only at the markets that changed since.

    Parameters
    ----------
    writer : LakeWriter
        Writes the minutes.
    recipe : Recipe
        Computes the minutes.
    sizes : mapping of tuple to Decimal
        Block size of each market that has one.
    is_complete : bool
        Whether the minute of a market's newest event is made too.

    Attributes
    ----------
    table : Table
        The table of minutes.
    markets : list of tuple of str
        All markets with such events.
    progress : callable
        Called with the number of markets that are done.
    rows : int
        Rows that were written.
    failed : list of (tuple of str, TidytapeError)
        Markets whose minutes could not be made.
    beside : list of _Maker
        Makers whose minutes are computed along with these, so that the trades are read once.
    ready : dict of tuple to polars.DataFrame
        By `_Step.key`, minutes of later steps that were computed along with those of another table.
    """

    def __init__(
        self,
        writer: LakeWriter,
        recipe: Recipe,
        sizes: Mapping[MarketName, Decimal],
        *,
        is_complete: bool,
    ) -> None:
        self.lake = lake = writer.lake
        self._writer = writer
        self.recipe = recipe
        self.table = recipe.table
        self.markets = [(exchange, symbol) for exchange, symbol in lake.markets_in(recipe.raw.name)]
        self.progress: Callable[[int], object] = lambda _: None
        self.rows = 0
        self.failed: list[tuple[MarketName, TidytapeError]] = []
        self.beside: list[_Maker] = []
        self.ready: dict[tuple[object, ...], pl.DataFrame] = {}
        self._sizes = sizes
        self._open = 0 if is_complete else MINUTE  # length of the newest minute that is not made yet [ns]
        self._steps: list[_Step] = []
        self._is_made = False
        market_block_sizes = (
            [(market, str(sizes.get(market))) for market in self.markets] if recipe.has_levels else []
        )
        # Read before the first event: events that come later belong to the next rollup.
        current_edition = edition(lake.delta(recipe.raw.name)) if self.markets else 0
        self._notes = {WHOLE: current_edition, "sizes": zlib.crc32(repr(market_block_sizes).encode())}

    def due(self) -> list[MarketName]:
        """Return the markets that may have new events."""
        table_of_minutes = self._stored()
        if table_of_minutes is None:
            return self.markets
        noted_edition, noted_sizes = (table_of_minutes.transaction_version(name) for name in self._notes)
        if not self._open or noted_edition is None or noted_sizes != self._notes["sizes"]:
            return self.markets
        changed = changed_since(self.lake.delta(self.recipe.raw.name), noted_edition)
        return self.markets if changed is None else [market for market in self.markets if market in changed]

    def note_whole(self) -> None:
        """Store the notes that all markets are finished, unless a market failed or the table already has them."""
        table_of_minutes = self._stored()
        if table_of_minutes is None or self.failed:
            return

        def attempt(delta: DeltaTable) -> None:
            if any(delta.transaction_version(name) != value for name, value in self._notes.items()):
                _commit.note(delta, [Transaction(name, value) for name, value in self._notes.items()])

        self._writer._until_committed(self.table.name, attempt)

    def _stored(self) -> _delta.Opened | None:
        name = self.table.name
        return self.lake.delta(name) if self.markets and self.lake.has_table(name) else None

    def make(self, markets: Sequence[MarketName]) -> None:
        """Make the minutes that some markets lack."""
        name = self.table.name
        if markets and not self.lake.has_table(name):
            self._writer._make(self.table)
        waiting_markets = list(markets)
        while waiting_markets:
            try:
                unfinished_markets = self._writer._until_committed(
                    name, partial(self._batch, waiting_markets)
                )
            except TidytapeError as error:
                if len(self._steps) == 1 or len(waiting_markets) == 1:
                    failed_market = self._steps[0].market if self._steps else waiting_markets[0]
                    self.failed.append((failed_market, error))
                    unfinished_markets = [market for market in waiting_markets if market != failed_market]
                elif self._is_made:
                    raise  # the minutes were computed but not written, so the other batches would fail too
                else:
                    # A market with bad events must not stop the others, so halve the batch until it is alone.
                    middle = len(waiting_markets) // 2
                    self.make(waiting_markets[:middle])
                    self.make(waiting_markets[middle:])
                    return
            self.progress(len(waiting_markets) - len(unfinished_markets))
            waiting_markets = unfinished_markets

    def _batch(self, waiting_markets: list[MarketName], stored: _delta.Opened) -> list[MarketName]:
        """Make the next minutes of some markets in one commit; return the markets that may still lack minutes."""
        self._steps, self._is_made = [], False
        unfinished_markets: list[MarketName] = []
        stored.read_notes(len(waiting_markets))
        raw, events = self.lake.delta(self.recipe.raw.name), 0.0
        for index, market in enumerate(waiting_markets):
            step = self._step(stored, raw, market)
            if step is None:
                continue
            is_alone = step.replaces or self.recipe.lasts
            if self._steps and (is_alone or events + step.events > _EVENTS):
                unfinished_markets += waiting_markets[index:]
                break
            self._steps.append(step)
            events += step.events
            if not step.is_last:
                unfinished_markets.append(market)
            if is_alone:
                unfinished_markets += waiting_markets[index + 1 :]
                break
        if self._steps:
            self.rows += self._written(stored, self._steps)
        return unfinished_markets

    def _step(self, stored: _delta.Opened, raw: _delta.Opened, market: MarketName) -> _Step | None:
        """Return the next minutes to make of a market; None if it lacks none, or none can be made."""
        size = self._sizes.get(market) if self.recipe.has_levels else None
        if size is None and self.recipe.has_levels:
            return None  # without a block size its levels have no height
        first, last = self.lake.extent(self.recipe.raw.name, *market)
        if first is None or last is None:
            # There is no file, or another tool wrote the files and did not note their times; a check reports that.
            return None
        start, made_until = first // MINUTE * MINUTE, (last // MINUTE + 1) * MINUTE - self._open
        state = state_of(stored, market, size)
        if state is not None:
            stale_spans = stale(self.recipe, raw, market, state)
            if (
                sum(end - first_of_span for first_of_span, end in stale_spans) > _LONGEST
                or len(stale_spans) > _PATCHES
            ):
                # Too much to replace at once: make all minutes anew, from the first stale one on. The later rows stay
                # until then, but no query reads rows after the time that the note states.
                start = max(stale_spans[0][0], start)
            elif stale_spans:
                state_then = State(edition(raw), state.until)
                return _Step(market, stale_spans, state_then, size, 0.0, replaces=True, is_last=False)
            else:
                start = state.until
        if start >= made_until:
            return None
        until, events = _chunk(_delta.files(raw, market), start, made_until)
        replaces = _delta.may_hold(stored, market, start=start, end=until)
        state_then = State(edition(raw), until)
        return _Step(
            market, [(start, until)], state_then, size, events, replaces, is_last=until == made_until
        )

    def _written(self, stored: _delta.Opened, steps: list[_Step]) -> int:
        """Compute the minutes of some steps and commit them with their states; return the number of rows."""
        first_step = steps[0]
        with _delta.failing(f"make the minutes of {' '.join(first_step.market)}", self.lake.path):
            if self.beside and sum(step.events for step in steps) >= _WORTH_SHARING:
                self._make_ready(steps)
            if all(step.key in self.ready for step in steps):
                frames = [self.ready.pop(step.key) for step in steps]
            else:
                frames = self._computed(steps)
            rows = self.table.conform(pl.concat(frames))
        self._is_made = True
        notes = [note for step in steps for note in step.state.notes(step.market, step.block_size)]
        if first_step.replaces:
            ordered = rows.sort(self.table.order)
            _commit.replace_minutes(
                stored, self.table, ordered, first_step.market, first_step.spans, notes=notes
            )
        else:  # the writer of the files sorts the rows of each market, if they are not sorted already
            markets = [step.market for step in steps]
            _commit.add_minutes(
                stored, self.table, rows, markets, notes=notes, options=self.lake.storage_options
            )
        return rows.height

    def _computed(self, steps: list[_Step]) -> list[pl.DataFrame]:
        """Return the minutes of some steps, computed by the recipe of the table."""
        asks = [ask for step in steps for ask in step.asks]
        # A step with several spans is a batch by itself; its spans are read one by one.
        asks_of_plans = [[ask] for ask in asks] if len(steps) == 1 else [asks]
        plans = [
            self.recipe.minutes(self.lake, *asks_of_plan).select(self.table.names)
            for asks_of_plan in asks_of_plans
        ]
        return pl.collect_all(plans, engine="streaming")

    def _make_ready(self, steps: list[_Step]) -> None:
        """Compute the minutes of some steps, and of the same steps of the tables beside, from one reading of trades.

        If too many minutes of the other tables already wait to be written, or those of one table cannot be computed,
        it computes none, and each table computes its own.
        """
        if sum(rows.height for maker in self.beside for rows in maker.ready.values()) > _WAITING:
            return
        same_steps = {
            maker: [
                other
                for step in steps
                if (other := maker._next(step.market)) and other.span_key == step.span_key
            ]
            for maker in self.beside
        }
        sized_asks = {
            ask.names: ask
            for steps_of_maker in same_steps.values()
            for step in steps_of_maker
            for ask in step.asks
            if ask.block_size
        }
        asks = [sized_asks.get(ask.names, ask) for step in steps for ask in step.asks]
        try:
            minutes = of_trades(self.lake, asks)
        except (TidytapeError, pl.exceptions.PolarsError):
            return
        for maker, steps_of_maker in {self: steps, **same_steps}.items():
            for step in steps_of_maker:
                exchange, symbol = step.market
                rows = minutes[maker.table.name].filter(exchange=exchange, raw_symbol=symbol)
                maker.ready[step.key] = rows.select(maker.table.names)

    def _next(self, market: MarketName) -> _Step | None:
        """Return the next minutes to make of a market."""
        if not self.lake.has_table(self.table.name):
            self._writer._make(self.table)
        return self._step(self.lake.delta(self.table.name), self.lake.delta(self.recipe.raw.name), market)


def _chunk(files: Sequence[_delta.Facts], start: int, newest: int) -> tuple[int, float]:
    """Return the end of the next minutes from ``start`` on, and about how many events they are computed from.

    The minutes are those of the most whole days whose events fit into a batch, and of at least one day.
    """
    until, events = newest, 0.0
    for days in range(_LONGEST // DAY, 0, -1):
        until = min(newest, (start // DAY + days) * DAY)
        # This assumes that the events of a file are spread evenly over its time.
        events = sum((file.rows or 0) * file.share(start, until) for file in files)
        if events <= _EVENTS:
            break
    return until, events
