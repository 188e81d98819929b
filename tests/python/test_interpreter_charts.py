"""Forty plots of Matplotlib, pandas and seaborn, and what the code interpreter's SDK reads of each: kind, labels, scales, elements."""

import json

import pytest
from e2b_code_interpreter.charts import ChartType

from interpreters import build, interpreter

PREPARE = """
import datetime, numpy as np, pandas as pd, seaborn as sns
import matplotlib.pyplot as plt
from datetime import date
days = [date(2024, 1, day) for day in (1, 2, 3)]
frame = pd.DataFrame({'a': [1, 3, 2], 'b': [2, 1, 4], 'kind': ['x', 'y', 'x']}, index=['p', 'q', 'r'])
"""

# Code of a plot, and its kind. `axes` are those of a chart of several.
LINE, SCATTER, BAR, PIE, BOX, SUPER, UNKNOWN = (
    "line", "scatter", "bar", "pie", "box_and_whisker", "superchart", "unknown",
)
PLOTS = [
    ("plt.plot([1, 2], [3, 4])", LINE),
    ("plt.plot([1, 2], [3, 4], label='one'); plt.plot([1, 2], [4, 3], label='two')", LINE),
    ("plt.plot([3, 1, 2])", LINE),
    ("plt.plot(days, [1, 2, 3])", LINE),
    ("plt.plot([datetime.datetime(2024, 1, 1, hour) for hour in (1, 2)], [1, 2])", LINE),
    ("plt.plot(np.array(['2024-01-01', '2024-01-02'], dtype='datetime64[D]'), [1, 2])", LINE),
    ("plt.semilogx([1, 10, 100], [1, 2, 3])", LINE),
    ("plt.semilogy([1, 2, 3], [1, 10, 100])", LINE),
    ("plt.loglog([1, 10], [1, 10])", LINE),
    ("plt.plot([0.1, 0.9], [1, 2]); plt.xscale('logit')", LINE),
    ("plt.plot([-10, 10], [1, 2]); plt.xscale('symlog')", LINE),
    ("plt.plot([1, 2], [1, 2]); plt.yscale('asinh')", LINE),
    ("plt.plot(['a', 'b', 'c'], [1, 2, 3])", LINE),
    ("plt.step([1, 2, 3], [1, 2, 3])", LINE),
    ("plt.plot([1, 2], [1, 2]); plt.text(1, 1, 'note')", LINE),
    ("frame[['a', 'b']].plot()", LINE),
    ("frame['a'].plot(kind='line')", LINE),
    ("sns.lineplot(x=[1, 2, 3], y=[3, 1, 2], errorbar=None)", LINE),
    ("plt.scatter([1, 2], [3, 4])", SCATTER),
    ("plt.scatter([1, 2], [3, 4], label='s'); plt.scatter([2], [1], label='t')", SCATTER),
    ("plt.scatter(days, [1, 2, 3])", SCATTER),
    ("plt.scatter([1, 10], [1, 100]); plt.xscale('log'); plt.yscale('log')", SCATTER),
    ("plt.scatter([1, 2], [3, 4]); plt.axhline(3)", SCATTER),
    ("frame.plot.scatter(x='a', y='b')", SCATTER),
    ("sns.scatterplot(data=frame, x='a', y='b')", SCATTER),
    ("plt.bar(['x', 'y'], [1, 2])", BAR),
    ("plt.bar([1, 2], [1, 2], label='g')", BAR),
    ("plt.barh(['x', 'y'], [1, 2])", BAR),
    ("plt.bar(['x', 'y'], [1, 2], label='low'); plt.bar(['x', 'y'], [2, 1], bottom=[1, 2], label='high')", BAR),
    ("frame[['a', 'b']].plot.bar()", BAR),
    ("frame['a'].plot.barh()", BAR),
    ("sns.barplot(x=['x', 'y'], y=[1, 2], errorbar=None)", BAR),
    ("plt.hist([1, 1, 2, 3], bins=3)", BAR),
    ("plt.pie([1, 2, 3], labels=['a', 'b', 'c'])", PIE),
    ("frame['a'].plot.pie()", PIE),
    ("plt.boxplot([[1, 2, 3, 4, 5], [2, 3, 4, 6, 9]], tick_labels=['x', 'y'], patch_artist=True)", BOX),
    ("plt.boxplot([[1, 2, 3, 4, 5, 6, 20], [0, 3, 6, 7, 9], [2, 4, 5, 8, 9]], patch_artist=True)", BOX),
    ("figure, axes = plt.subplots(1, 2); axes[0].plot([1, 2]); axes[1].bar(['x'], [1]); figure.suptitle('both')", SUPER),
    ("frame[['a', 'b']].plot(subplots=True)", SUPER),
    ("plt.imshow([[1, 2], [3, 4]])", UNKNOWN),
]
LABELS = "plt.title('Title'); plt.gca().set_xlabel('Time (s)'); plt.gca().set_ylabel('Speed [m/s]')"
SCALES = {"linear", "datetime", "categorical", "log", "symlog", "logit", "function", "functionlog", "asinh"}


@pytest.fixture(scope="module")
def box(server, resolver):
    with resolver.passing_on():
        build(server)
    with interpreter() as sandbox:
        assert not sandbox.run_code(PREPARE).error
        yield sandbox


def test_charts(box):
    assert len(PLOTS) == 40
    for code, kind in PLOTS:
        chart = plot(box, code + "\n" + ("" if kind == SUPER else LABELS))
        assert chart.type.value == kind, (code, chart.type)
        if kind == SUPER:
            assert len(chart.elements) == 2 and all(one.type in (ChartType.LINE, ChartType.BAR) for one in chart.elements), code
            continue
        assert chart.title == "Title", code
        check(chart, kind, code)


def check(chart, kind: str, code: str) -> None:
    if kind in (LINE, SCATTER, BAR, BOX):
        # The axes of horizontal bars change places.
        labels = [(chart.x_label, chart.x_unit), (chart.y_label, chart.y_unit)]
        assert sorted(labels) == [("Speed [m/s]", "m/s"), ("Time (s)", "s")], code
    if kind != UNKNOWN:
        assert chart.elements, code
    for element in chart.elements:
        if kind in (LINE, SCATTER):
            assert isinstance(element.label, str) and element.points, code
            assert all(isinstance(value, (float, str)) for point in element.points for value in point), (code, element.points)
        elif kind == BAR:
            assert isinstance(element.value, float | int) and isinstance(element.label, str) and element.group, code
        elif kind == PIE:
            assert 0 < element.angle <= 360 and element.radius > 0, code
        elif kind == BOX:
            assert element.min <= element.first_quartile <= element.median <= element.third_quartile <= element.max, code
            assert isinstance(element.outliers, list)
    if kind in (LINE, SCATTER):
        assert {chart.x_scale.value, chart.y_scale.value} <= SCALES, code
        assert len(chart.x_ticks) == len(chart.x_tick_labels) and len(chart.y_ticks) == len(chart.y_tick_labels)
        assert all(isinstance(tick, (float, str)) for tick in chart.x_ticks + chart.y_ticks), code


def test_details(box):
    dates = plot(box, "plt.plot(days, [1, 2, 3])")
    assert dates.x_scale.value == "datetime" and dates.title is None and dates.x_label is None
    assert dates.elements[0].points[0] == ("2024-01-01", 1.0) and dates.elements[0].label == "Line 0"
    assert plot(box, "plt.plot(['a', 'b'], [1, 2])").x_scale.value == "categorical"
    assert plot(box, "plt.semilogy([1, 2], [1, 10])").y_scale.value == "log"
    bars = plot(box, "plt.barh(['x', 'y'], [1, 2])")
    assert [(bar.label, bar.value) for bar in bars.elements] == [("x", 1), ("y", 2)]
    pie = plot(box, "plt.pie([1, 1], labels=['a', 'b'])")
    assert [(part.label, part.angle) for part in pie.elements] == [("a", 180.0), ("b", 180.0)]
    both = plot(box, "figure, axes = plt.subplots(1, 2); axes[0].plot([1, 2]); axes[1].bar(['x'], [1]); figure.suptitle('both')")
    assert both.title == "both" and [one.type for one in both.elements] == [ChartType.LINE, ChartType.BAR]
    done = box.run_code("plt.plot([1, 2]); plt.show()")
    assert json.loads(done.to_json())["results"][0]["chart"]["type"] == "line"
    assert box.run_code("plt.figure(); plt.show()").results[0].chart is None, "nothing is in it"


def plot(box, code: str):
    done = box.run_code(f"{code}\nplt.show()")
    assert not done.error, (code, done.error.traceback)
    result = done.results[-1]
    assert result.png and result.chart, code
    return result.chart
