"""What `sluice.spark` offers is found there, and importing it loads nothing."""

from __future__ import annotations

import subprocess
import sys

import sluice.spark


def test_every_name_is_what_it_says_whatever_was_imported_before() -> None:
    for _ in range(2):
        for name in sluice.spark.__all__:
            found = getattr(sluice.spark, name)
            assert callable(found) and found.__name__ == name and found.__module__.startswith("sluice.spark."), name
    from sluice.spark import session

    assert session.__name__ == "session"
    assert {*sluice.spark.__all__} <= {*dir(sluice.spark)}
    assert not hasattr(sluice.spark, "nothing")


def test_importing_it_loads_nothing() -> None:
    program = "import sluice.spark, sys; print('pyspark' in sys.modules, 'pandas' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "False False\n"
