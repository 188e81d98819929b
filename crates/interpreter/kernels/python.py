"""Starts an ipykernel with the displays that clients of the code interpreter expect. `python.py CONNECTION-FILE`.

Nothing here imports pandas, matplotlib or Pillow: what they need is registered by name, or done when they are imported.
"""

import datetime
import importlib.abc
import importlib.machinery
import json
import math
import resource
import sys

from IPython.core.formatters import BaseFormatter
from ipykernel.kernelapp import IPKernelApp
from traitlets import ObjectName, Unicode

# Longer values are shown as text only.
MAX_JSON_ITEMS = 1_000_000
MAX_DEPTH = 100
MAX_OPEN_FILES = 65536


class DataFormatter(BaseFormatter):
    """Columns of a table."""

    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict, list)


class ChartFormatter(BaseFormatter):
    """The values that a plot shows."""

    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = dict

    def pop(self, typ, default=None):
        """Keeps its types: the set-up of matplotlib removes what shows figures from all formatters."""
        return default


class NotJson(Exception):
    pass


class Converter:
    """Turns a value into one that JSON can express, or raises `NotJson`. Not a recursive call per item of a flat list."""

    def __init__(self):
        self.left = MAX_JSON_ITEMS

    def convert(self, value, depth=0):
        self.left -= 1
        if self.left < 0 or depth > MAX_DEPTH:
            raise NotJson
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else None
        if isinstance(value, dict):
            return {self.key(key): self.convert(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.convert(item, depth + 1) for item in value]
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, (bool, int)):
            return int(value)
        if isinstance(value, float):
            return self.convert(float(value), depth)
        # NumPy's scalars and arrays, and pandas' timestamps, without importing either.
        if hasattr(value, "isoformat"):
            return str(value.isoformat())
        if hasattr(value, "tolist"):
            return self.convert(value.tolist(), depth + 1)
        raise NotJson

    @staticmethod
    def key(key):
        if isinstance(key, str):
            return str.__str__(key)
        if key is None or isinstance(key, (bool, int, float)):
            return json.dumps(key)
        return str(key)


def as_json(value):
    try:
        return Converter().convert(value)
    except Exception:
        return None


def as_columns(frame):
    try:
        convert = Converter().convert
        columns = {}
        for at, name in enumerate(frame.columns):
            column = frame.iloc[:, at]
            missing = column.isna().tolist()
            values = [None if gone else value for value, gone in zip(column.tolist(), missing)]
            columns[str(name)] = [plain(value, convert) for value in values]
        return columns
    except Exception:
        return None


def plain(value, convert):
    try:
        return convert(value)
    except NotJson:
        return str(value)


def as_chart(figure):
    try:
        from e2b_charts import chart_figure_to_dict
    except ImportError:
        return None
    try:
        return as_json(chart_figure_to_dict(figure)) or None
    except Exception:
        return None


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module once it has been imported."""

    def __init__(self, name, function):
        self.name, self.function = name, function

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            self.function(module)

        spec.loader.exec_module = exec_module
        return spec


def display_images(module):
    """`show()` and `save("path")` of Pillow display the image: there is no viewer."""
    from IPython.display import display

    image, save = module.Image, module.Image.save

    def show(self, *args, **options):
        display(self)

    def save_and_show(self, target, *args, **options):
        result = save(self, target, *args, **options)
        if isinstance(target, str):
            display(self)
        return result

    image.show, image.save = show, save_and_show
    # What IPython asks for must not display again.
    for name in ("_repr_png_", "_repr_jpeg_"):
        shown = getattr(image, name, None)
        if shown is not None:
            setattr(image, name, shown)


def keep_streams(shell):
    """Gives back `sys.stdout` and `sys.stderr` that a cell has replaced by something that is no stream: the kernel needs them itself."""
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr")}

    def restore(*_):
        for name, stream in streams.items():
            try:
                getattr(sys, name).flush()
            except Exception:
                setattr(sys, name, stream)

    shell.events.register("pre_run_cell", restore)
    shell.events.register("post_run_cell", restore)
    finish = shell.displayhook.finish_displayhook

    def finish_displayhook():
        restore()
        finish()

    shell.displayhook.finish_displayhook = finish_displayhook


def install(shell):
    keep_streams(shell)
    formatter = shell.display_formatter
    data, chart = DataFormatter(parent=formatter), ChartFormatter(parent=formatter)
    formatter.formatters[data.format_type] = data
    formatter.formatters[chart.format_type] = chart
    data.for_type_by_name("pandas.core.frame", "DataFrame", as_columns)
    data.for_type_by_name("pandas", "DataFrame", as_columns)
    chart.for_type_by_name("matplotlib.figure", "Figure", as_chart)
    as_json_formatter = formatter.formatters["application/json"]
    as_json_formatter.for_type(list, as_json)
    as_json_formatter.for_type(dict, as_json)
    as_json_formatter.enabled = True
    formatter.active_types = list(formatter.formatters)
    formatter.formatters["text/plain"].max_seq_length = 0
    sys.meta_path.insert(0, AfterImport("PIL.Image", display_images))


def main():
    connection = sys.argv[1]
    # `!command` closes every descriptor up to the limit, which takes seconds where it is a billion.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, MAX_OPEN_FILES), hard))
    sys.argv = ["ipykernel_launcher"]
    # The directory of this file is not one for imports; the current directory is.
    sys.path[0] = ""
    app = IPKernelApp.instance()
    app.initialize(["-f", connection, "--InteractiveShell.colors=nocolor", "--IPKernelApp.quiet=True", "--HistoryManager.enabled=False"])
    install(app.shell)
    app.start()


main()
