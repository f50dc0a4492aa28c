"""The frames for backtests in the libraries themselves: they take them, and nothing is seen too early.

vectorbt and NautilusTrader bring their own versions of much, so each is tried in an environment of its own:
``pip install nautilus_trader pytest …`` and ``pytest tests/analytics/test_pit_libraries.py``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from tidytape.analytics import pit

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs: they use what their own dependencies will drop

START, HOUR = datetime(2024, 8, 8, tzinfo=UTC), timedelta(hours=1)

# Opens at 100, 110, …; each closes 5 above and where the next opens is 5 more.
CANDLES = pl.DataFrame(
    {
        "raw_symbol": "BTCUSDT",
        "interval": "HOUR",
        "timestamp": [START + hour * HOUR for hour in range(8)],
        "open": [100.0 + 10 * hour for hour in range(8)],
        "high": [106.0 + 10 * hour for hour in range(8)],
        "low": [99.0 + 10 * hour for hour in range(8)],
        "close": [105.0 + 10 * hour for hour in range(8)],
        "volume": 10.0,
    }
)


@pytest.mark.slow
def test_backtesting_decides_at_a_close_and_fills_at_the_next_open():
    library = pytest.importorskip(
        "backtesting", reason="backtesting is not installed: pip install backtesting"
    )
    seen = []

    class Once(library.Strategy):
        def init(self):
            pass

        def next(self):
            seen.append((self.data.index[-1].to_pydatetime(), float(self.data.Close[-1])))
            if len(seen) == 1:
                self.buy(size=1)

    statistics = library.Backtest(pit.to_backtesting(CANDLES), Once, cash=10_000, finalize_trades=True).run()
    (trade,) = statistics["_trades"].to_dict("records")
    assert seen[0] == (START + HOUR, 115.0)  # the candle of 01:00, complete at 02:00
    assert (trade["EntryTime"].to_pydatetime(), trade["EntryPrice"]) == (START + 2 * HOUR, 120.0)


def test_vectorbt_fills_a_shifted_signal_at_the_next_open():
    library = pytest.importorskip("vectorbt", reason="vectorbt is not installed: pip install vectorbt")
    frame = pit.to_vectorbt(pl.concat([CANDLES, CANDLES.with_columns(raw_symbol=pl.lit("ETHUSDT"))]))
    is_high = frame["Close"] > 120  # first of the candle of 02:00, known at 03:00
    entries = is_high.shift(1, fill_value=False)
    portfolio = library.Portfolio.from_signals(frame["Close"], entries, price=frame["Open"], freq="1h")
    orders = portfolio.orders.records_readable
    assert orders["Column"].tolist() == ["BTCUSDT", "ETHUSDT"]
    assert [time.to_pydatetime() for time in orders["Timestamp"]] == [START + 3 * HOUR] * 2
    assert orders["Price"].tolist() == [130.0] * 2


def test_nautilus_shows_a_bar_when_it_is_complete():
    pytest.importorskip(
        "nautilus_trader", reason="nautilus_trader is not installed: pip install nautilus_trader"
    )
    from nautilus_trader.model.data import BarType
    from nautilus_trader.persistence.wranglers import BarDataWrangler
    from nautilus_trader.test_kit.providers import TestInstrumentProvider

    instrument = TestInstrumentProvider.btcusdt_binance()
    wrangler = BarDataWrangler(BarType.from_str(f"{instrument.id}-1-HOUR-LAST-EXTERNAL"), instrument)
    bars = wrangler.process(pit.to_nautilus(CANDLES))
    ends = [int((START + hour * HOUR).timestamp()) * 10**9 for hour in range(1, 9)]
    assert [bar.ts_init for bar in bars] == [bar.ts_event for bar in bars] == ends
    assert [float(value) for value in (bars[0].open, bars[0].high, bars[0].low, bars[0].close)] == [
        100,
        106,
        99,
        105,
    ]
