"""The kernels for processors without AVX-512 give the same answers: their own tests run on those too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.long
def test_without_avx512(tmp_path: Path) -> None:
    """In a process of its own, because the choice is made when the kernels are compiled."""
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
    }
    asked = [sys.executable, "-c", "from sluice.match.kernels.vectors import AVAILABLE; print(AVAILABLE)"]
    assert subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout == "False\n"
    tests = [str(HERE / f"test_{name}.py") for name in ("tiles", "mixed", "vectors", "encode")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, env=environment, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
