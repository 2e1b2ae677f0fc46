"""Names that packages import when somebody asks for them."""

from __future__ import annotations

from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["sluice", "sluice.broker", "sluice.client"])
def test_a_package_has_the_names_that_it_says_it_has(package: str) -> None:
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name).__name__ == name
        assert vars(module)[name] is getattr(module, name), "it is looked up once"
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing
