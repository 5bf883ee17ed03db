"""Methods side by side on one machine. `slem_demo.bench` is its function; the rooms behind it may be asked for more."""

from slem_demo.benchmark.measure import Others, bench, calibrate, differences, finish, requests, runs
from slem_demo.benchmark.report import Calibration, Case, Report, Run
from slem_demo.benchmark.variant import Variant

__all__ = [
    "Calibration",
    "Case",
    "Others",
    "Report",
    "Run",
    "Variant",
    "bench",
    "calibrate",
    "differences",
    "finish",
    "requests",
    "runs",
]
