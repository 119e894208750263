"""pyogrio starts without pandas in a command, and pandas can still be had."""

import subprocess
import sys

PROGRAM = """
import sys
from havasu_vc.cli.quick_pyogrio import leave_frames_out
leave_frames_out()
leave_frames_out()
import pyogrio
frames = {"geopandas", "pandas", "pyproj"} & set(sys.modules)
import pandas, shapely
left = [each for each in sys.meta_path if "havasu_vc" in getattr(each, "__module__", "")]
print(sorted(frames), pandas.DataFrame({"a": [1]}).shape, left)
"""


def test_data_frames_are_left_out_of_pyogrio_alone() -> None:
    command = [sys.executable, "-c", PROGRAM]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    assert said.stdout == "[] (1, 1) []\n"
