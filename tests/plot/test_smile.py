from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from recorded_chains import recorded_chains
from tidytape import plot
from tidytape.analytics import options
from tidytape.errors import MissingColumnError, QueryError

NOW = datetime(2026, 3, 5, 8, tzinfo=UTC)
WEEK, MONTH = NOW + timedelta(days=7), NOW + timedelta(days=30)


def chain(*rows, **columns):
    """Quotes of (expiry, C or P, strike, volatility)."""
    expiry, kind, strike, volatility = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "exchange": "DERIBIT", "coin": "BTC", "timestamp": NOW, "expiry": expiry,
            "option_type": [{"C": "CALL", "P": "PUT"}[name] for name in kind], "strike": strike, "forward": 100.0,
            "implied_volatility": volatility, **columns,
        },
        schema_overrides={"implied_volatility": pl.Float64, "strike": pl.Float64},
    )  # fmt: skip


TWO = chain(
    (MONTH, "C", 120, 50), (WEEK, "C", 110, 52), (WEEK, "P", 90, 60), (WEEK, "C", 90, 99), (WEEK, "P", 110, 99),
    (WEEK, "C", 100, 54), (MONTH, "P", 80, 58), (MONTH, "C", 130, None), (MONTH, "C", 140, 0),
)  # fmt: skip


def grid(rows, **columns):
    days, moneyness, volatility = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "exchange": "DERIBIT", "coin": "BTC", "timestamp": NOW, "days": days, "moneyness": moneyness,
            "implied_volatility": volatility, **columns,
        },
        schema_overrides={"days": pl.Float64, "moneyness": pl.Float64, "implied_volatility": pl.Float64},
    )  # fmt: skip


FOUR = grid([(7, 0.1, 52), (30, -0.1, 56), (7, -0.1, 60), (30, 0.1, None)])


# -- smile


def test_times_may_be_nanoseconds(ax, native):
    counted = TWO.with_columns(pl.col("timestamp", "expiry").dt.timestamp("ns"))
    drawn = plot.smile(native(counted), curves=native(counted.with_columns(moneyness=0.0)), ax=ax)
    assert list(drawn.quotes) == [WEEK, MONTH] == list(drawn.curves)
    assert ax.get_title(loc="left") == "Volatility smile · DERIBIT BTC, 2026-03-05 08:00 UTC, 2 expiries"
    given = FOUR.with_columns(pl.col("timestamp").dt.timestamp("ns"))
    assert plot.surface(native(given), ax=ax).mesh is not None


def test_dots_are_the_out_of_the_money_quotes_by_expiry(ax, native):
    drawn = plot.smile(native(TWO), ax=ax)
    assert list(drawn.quotes) == [WEEK, MONTH]
    assert drawn.curves == {}
    assert_allclose(
        drawn.quotes[WEEK].get_xydata(), [[math.log(0.9), 60], [0, 54], [math.log(1.1), 52]], atol=1e-12
    )
    assert_allclose(drawn.quotes[MONTH].get_xydata(), [[math.log(0.8), 58], [math.log(1.2), 50]])
    assert drawn.quotes[WEEK].get_linestyle() == "-"


def test_strikes_can_be_right(ax):
    drawn = plot.smile(TWO, x="strike", ax=ax)
    assert_allclose(drawn.quotes[WEEK].get_xdata(), [90, 100, 110])
    assert ax.get_xlabel() == "Strike [quote per coin]"


def test_axes_are_labelled_with_units(ax):
    plot.smile(TWO, ax=ax, timezone="Asia/Tokyo")
    assert ax.get_xlabel() == "Log-moneyness ln(K/F) [1]"
    assert ax.get_ylabel() == "Implied volatility [%]"
    assert (
        ax.get_title(loc="left") == "Volatility smile · DERIBIT BTC, 2026-03-05 17:00 Asia/Tokyo, 2 expiries"
    )
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "2026-03-12 (7 d)",
        "2026-04-04 (30 d)",
    ]
    assert ax.get_legend().get_title().get_text() == "Expiry [Asia/Tokyo]"


def test_curves_have_the_colour_of_their_quotes(ax, native):
    curves = pl.DataFrame(
        {
            "exchange": "DERIBIT", "coin": "BTC", "timestamp": NOW, "expiry": [MONTH, MONTH, MONTH, WEEK],
            "moneyness": [0.2, -0.2, 0.0, 0.0], "strike": [122.0, 82.0, 100.0, 100.0],
            "implied_volatility": [50.0, 58.0, None, None],
        }
    )  # fmt: skip
    drawn = plot.smile(native(TWO), curves=native(curves), ax=ax)
    assert list(drawn.curves) == [MONTH]
    assert_allclose(drawn.curves[MONTH].get_xydata(), [[-0.2, 58], [0, np.nan], [0.2, 50]])
    assert to_rgba(drawn.curves[MONTH].get_color()) == to_rgba(drawn.quotes[MONTH].get_color())
    assert to_rgba(drawn.quotes[WEEK].get_color()) != to_rgba(drawn.quotes[MONTH].get_color())


def test_fits_are_drawn_as_their_curves(ax, native):
    fits = pl.DataFrame(
        {
            "exchange": "DERIBIT", "coin": "BTC", "timestamp": NOW, "expiry": MONTH, "days": 30.0, "forward": 100.0,
            "a": 0.02, "b": 0.1, "rho": -0.5, "m": 0.0, "sigma": 0.2, "lowest": -0.4, "highest": 0.3,
        }
    )  # fmt: skip
    line = plot.smile(native(TWO), curves=native(fits), ax=ax).curves[MONTH]
    places, volatility = line.get_data()
    assert_allclose(places[[0, -1]], [-0.4, 0.3])
    variance = 0.02 + 0.1 * (-0.5 * places + np.hypot(places, 0.2))
    assert_allclose(volatility, 100 * np.sqrt(variance * 365 / 30))


def test_spreads_go_from_bid_to_ask(ax, native):
    quoted = TWO.with_columns(
        bid_iv=pl.col("implied_volatility") - 1, ask_iv=pl.when(pl.col("strike") > 100).then(53.0)
    )
    drawn = plot.smile(native(quoted), ax=ax)
    (spread,) = drawn.spreads[WEEK].get_segments()
    assert_allclose(spread, [[math.log(1.1), 51], [math.log(1.1), 53]])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[2:] == ["mark", "bid to ask"]
    assert plot.smile(TWO, ax=ax).spreads == {}
    ax.figure.canvas.draw()


def test_deviations_make_smiles_as_wide(ax):
    drawn = plot.smile(TWO, x="deviation", ax=ax)
    # The quote of the week nearest to the forward has 54%, that of the month 50%.
    week, month = 0.54 * math.sqrt(7 / 365), 0.50 * math.sqrt(30 / 365)
    assert_allclose(drawn.quotes[WEEK].get_xdata(), np.log([0.9, 1, 1.1]) / week, atol=1e-12)
    assert_allclose(drawn.quotes[MONTH].get_xdata(), np.log([0.8, 1.2]) / month)
    assert ax.get_xlabel() == "Log-moneyness ln(K/F) / (σ√T) [standard deviations]"
    far = pl.concat([TWO, chain((WEEK, "C", 1000, 200))])
    plot.smile(far, x="deviation", ax=ax)
    assert (ax.get_xlim()[1], ax.get_ylim()[1] < 100) == (5, True)


def test_an_expiry_that_is_a_date_is_at_eight(ax):
    dates = TWO.with_columns(pl.col("expiry").dt.date())
    assert dates["expiry"][0] == date(2026, 4, 4)
    assert list(plot.smile(dates, ax=ax).quotes) == [WEEK, MONTH]


def test_of_many_expiries_the_legend_lists_some(ax):
    many = chain(*((NOW + timedelta(days=day), "C", 110, 50) for day in range(1, 31)))
    plot.smile(many, ax=ax)
    assert len(ax.get_legend().get_texts()) == 10


def test_no_quotes_say_no_data(ax, native):
    assert plot.smile(native(TWO.clear()), ax=ax).quotes == {}
    assert [text.get_text() for text in ax.texts] == ["no data"]
    ax.figure.canvas.draw()


def test_what_is_wrong_with_a_chain_is_named(ax):
    with pytest.raises(MissingColumnError, match="'forward'"):
        plot.smile(TWO.drop("forward"), ax=ax)
    with pytest.raises(QueryError, match="2 chains"):
        plot.smile(pl.concat([TWO, TWO.with_columns(coin=pl.lit("ETH"))]), ax=ax)
    with pytest.raises(QueryError, match="x: got 'delta'"):
        plot.smile(TWO, x="delta", ax=ax)
    others = TWO.with_columns(coin=pl.lit("ETH"), moneyness=0.0)
    with pytest.raises(QueryError, match="those of DERIBIT ETH"):
        plot.smile(TWO, curves=others, ax=ax)
    with pytest.raises(QueryError, match="a frame of polars, pandas"):
        plot.smile([1])
    with pytest.raises(QueryError, match="time zone"):
        plot.smile(TWO, timezone="Mars")
    with pytest.raises(QueryError, match="times with a zone"):
        plot.smile(TWO.with_columns(timestamp=0.0), ax=ax)
    with pytest.raises(QueryError, match="expiry: String"):
        plot.smile(TWO.with_columns(pl.col("expiry").cast(pl.String)), ax=ax)


# -- surface


def cells(mesh):
    """Centres of the columns and rows of a mesh, and its values; columns are even in the logarithm of days."""
    edges = mesh.get_coordinates()
    logs = np.log(edges[0, :, 0])
    return np.exp((logs[1:] + logs[:-1]) / 2), (edges[1:, 0, 1] + edges[:-1, 0, 1]) / 2, mesh.get_array()


def value_at(mesh, days, place):
    columns, rows, values = cells(mesh)
    return values[np.abs(rows - place).argmin(), np.abs(columns - days).argmin()]


def test_mesh_has_the_values_of_the_frame(ax, native):
    full = FOUR.with_columns(pl.col("implied_volatility").fill_null(50.0))
    drawn = plot.surface(native(full), ax=ax)
    for days, place, volatility in full.select("days", "moneyness", "implied_volatility").rows():
        assert value_at(drawn.mesh, days, place) == pytest.approx(volatility, abs=0.05)
    assert ax.get_xscale() == "log"
    assert drawn.contours is not None
    assert drawn.mesh.get_array().count() == drawn.mesh.get_array().size  # no place is masked


def test_between_days_total_variance_is_linear(ax):
    """28 d at 60% and 56 d at 58% give 59.7372% at 30 d, as definitions say."""
    two = grid([(28, place, volatility) for place in (-0.1, 0.1) for volatility in (60,)] + [
        (56, place, 58) for place in (-0.1, 0.1)
    ])  # fmt: skip
    columns, _, values = cells(plot.surface(two, ax=ax).mesh)
    variance = np.interp(columns, [28, 56], [0.6**2 * 28, 0.58**2 * 56])
    assert_allclose(values[7], 100 * np.sqrt(variance / columns), rtol=1e-4)
    assert value_at(ax.collections[0], 30, 0.0) == pytest.approx(59.7372, abs=0.01)


def test_nothing_is_drawn_beside_unknown_values(ax):
    days = (7, 14, 30)
    frame = grid(
        [(day, place, None if (day, place) == (30, 0.1) else 50) for day in days for place in (-0.1, 0.1)]
    )
    columns, _, values = cells(plot.surface(frame, ax=ax).mesh)
    assert not np.ma.getmaskarray(values)[:, columns < 13.9].any()
    assert np.ma.getmaskarray(values)[:, columns > 14.1].all()


def test_values_without_neighbours_are_shown_as_they_are(ax, native):
    assert plot.surface(native(FOUR), ax=ax).mesh.get_array().tolist() == [[60.0, 56.0], [52.0, None]]


def test_fits_are_a_surface(ax, native):
    flat = {"b": 0.0, "rho": 0.0, "m": 0.0, "sigma": 1.0, "forward": 100.0}
    fits = pl.DataFrame(
        {
            "coin": "BTC", "timestamp": NOW, "days": [28.0, 56.0], "a": [0.36 * 28 / 365, 0.3364 * 56 / 365],
            "lowest": [-0.4, -0.3], "highest": [0.3, 0.4], "status": ["ok", "poor_fit"], **flat,
        }
    )  # fmt: skip
    mesh = plot.surface(native(fits), y="moneyness", ax=ax).mesh
    columns, rows, values = cells(mesh)
    assert value_at(mesh, 30, 0.0) == pytest.approx(59.7372, abs=0.01)
    inside = (rows > -0.29) & (rows < 0.29)
    assert not np.ma.getmaskarray(values)[inside].any()
    between = (columns > 28.5) & (columns < 55)
    beyond = np.abs(rows) > 0.31  # one of the two has no quote there
    assert np.ma.getmaskarray(values)[np.ix_(beyond, between)].all()
    assert (
        ax.get_title(loc="left") == "Volatility surface · BTC, 2026-03-05 08:00 UTC, 2 expiries, 1 poor fit"
    )


def test_deviations_give_every_expiry_as_much_room(ax):
    flat = {"b": 0.0, "rho": 0.0, "m": 0.0, "sigma": 1.0, "forward": 100.0}
    fits = pl.DataFrame(
        {
            "timestamp": NOW, "days": [1.0, 100.0], "a": [0.25 / 365, 25 / 365], **flat,
            "lowest": [-0.05, -0.5], "highest": [0.05, 0.5],
        }
    )  # fmt: skip
    mesh = plot.surface(fits, ax=ax).mesh
    columns, rows, values = cells(mesh)
    assert ax.get_ylabel() == "Log-moneyness ln(K/F) / (σ√T) [standard deviations]"
    assert_allclose(rows[[0, -1]], [-5, 5], atol=0.05)
    reach = 0.05 / (0.5 * np.sqrt(columns / 365))  # of the first expiry's quotes, in deviations
    within = np.abs(rows[:, None]) < np.minimum(reach, 5) - 0.1
    assert_allclose(values[within & (columns < 99)].filled(np.nan), 50)
    assert np.ma.getmaskarray(values)[
        (np.abs(rows[:, None]) > reach + 0.1) & (columns > 1.1) & (columns < 99)
    ].all()


def test_surface_is_labelled_with_units(ax):
    plot.surface(FOUR, ax=ax)
    assert ax.get_xlabel() == "Time to expiry [d, log scale]"
    assert ax.get_ylabel() == "Log-moneyness ln(K/F) [1]"
    assert ax.get_title(loc="left") == "Volatility surface · DERIBIT BTC, 2026-03-05 08:00 UTC"
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["7", "14", "30"]
    assert [other.get_ylabel() for other in ax.child_axes] == ["Implied volatility [%]"]


def test_one_maturity_or_place_has_no_contours(ax):
    drawn = plot.surface(FOUR.filter(pl.col("days") == 7), ax=ax)
    assert drawn.contours is None
    assert drawn.mesh.get_array()[[0, -1], 0].tolist() == pytest.approx([60.0, 52.0])
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    "frame", [FOUR.clear(), FOUR.with_columns(implied_volatility=pl.lit(None, pl.Float64))]
)
def test_no_volatilities_say_no_data(ax, frame):
    drawn = plot.surface(frame, ax=ax)
    assert (drawn.mesh, drawn.contours) == (None, None)
    assert [text.get_text() for text in ax.texts] == ["no data"]


def test_what_is_wrong_with_a_surface_is_named(ax):
    with pytest.raises(QueryError, match="several rows of one place"):
        plot.surface(pl.concat([FOUR, FOUR]), ax=ax)
    with pytest.raises(QueryError, match="2 chains"):
        plot.surface(pl.concat([FOUR, FOUR.with_columns(timestamp=pl.lit(MONTH))]), ax=ax)
    with pytest.raises(MissingColumnError, match="'moneyness'"):
        plot.surface(FOUR.drop("moneyness"), ax=ax)


# -- recorded


@pytest.mark.slow
def test_recorded_chain_from_quotes_to_the_artists(recorded, ax):
    chains = recorded_chains(recorded)
    btc = chains.filter(coin="BTC").filter(pl.col("timestamp") == pl.col("timestamp").min())
    fits = options.svi(btc)
    drawn = plot.smile(btc, curves=options.smile(fits), ax=ax)
    assert list(drawn.quotes) == list(drawn.curves) == fits["expiry"].to_list()
    for line, quotes in zip(drawn.quotes.values(), fits["quotes"], strict=True):
        assert len(line.get_xdata()) == quotes
    for fit, line in zip(fits.rows(named=True), drawn.curves.values(), strict=True):
        places, volatility = line.get_data()
        root = np.hypot(places - fit["m"], fit["sigma"])
        variance = fit["a"] + fit["b"] * (fit["rho"] * (places - fit["m"]) + root)
        assert_allclose(volatility, 100 * np.sqrt(variance * 365 / fit["days"]), rtol=1e-12)
    ax.figure.canvas.draw()
    # A surface at the expiries themselves is their smiles.
    places = [-0.05, 0.0, 0.05]
    across = options.surface(fits, days=fits["days"], moneyness=places)
    mesh = plot.surface(across, ax=Figure().add_subplot()).mesh
    along = options.smile(fits, moneyness=places)["implied_volatility"].to_numpy().reshape(-1, 3)
    for days, smile in zip(fits["days"], along, strict=True):
        for place, volatility in zip(places, smile, strict=True):
            assert value_at(mesh, days, place) == pytest.approx(volatility, rel=2e-2)
