"""A registry with the built-in plugins and one more, whose module a test writes."""

import __future__

import sys
import textwrap
from types import ModuleType

import pytest

from zoo.registry.discovery import discover
from zoo.registry.owners import Plugin
from zoo.registry.registry import Registry


def registry_with(
    patch: pytest.MonkeyPatch, code: str, name: str = "visitor", registry: Registry | None = None
) -> Registry:
    """Return a registry with the plugin `name`, whose module `zoo_NAME` has this code.

    With `registry`, its plugins are there too.
    """
    module = ModuleType(f"zoo_{name}")
    patch.setitem(sys.modules, module.__name__, module)
    text = f"from zoo import hookimpl\nZOO_API = 2\n{textwrap.dedent(code)}"
    code_object = compile(text, f"zoo_{name}", "exec", __future__.annotations.compiler_flag)
    exec(code_object, module.__dict__)
    plugins = registry.plugins if registry is not None else discover("")
    plugins.add(module, Plugin(name, f"zoo-{name}", "1.0"))
    return Registry(plugins)
