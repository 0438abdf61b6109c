"""Laws of what a plugin declares: the config, the plugin itself, the models of its catalogue."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from zoo.errors import ConfigError
from zoo.registry.catalogue_check import catalogue_problems
from zoo.registry.config import parse_settings
from zoo.testing.case import Case
from zoo.testing.law import BrokenLawError, law


@law(
    causes="a type that JSON lacks, or a list in place of a tuple; a validator that changes "
    "values; model_config that allows unknown keys; a field without Field(description=…)"
)
def config_round_trips(case: Case) -> None:
    """A config survives JSON and `--set` unchanged, and describes every field."""
    kind, values = type(case.config), case.config.model_dump(mode="json")
    settings = parse_settings([f"{key}={json.dumps(value)}" for key, value in values.items()])
    for source, parsed in (("JSON", json.loads(json.dumps(values))), ("--set", settings)):
        config = kind.parse(parsed, "example")
        if config != case.config:
            raise BrokenLawError(f"config {case.config} comes back from {source} as {config}")
    try:
        kind.parse({**values, "no_such_key": 1}, "example")
    except ConfigError:
        pass
    else:
        raise BrokenLawError("the config silently accepts an unknown key")
    if not kind.model_config.get("frozen"):
        raise BrokenLawError("the config is not frozen")
    undescribed = [name for name, field in kind.model_fields.items() if not field.description]
    if undescribed:
        raise BrokenLawError(f"config fields without a description: {', '.join(undescribed)}")
    if case.config.width < 1:
        raise BrokenLawError(f"width is {case.config.width}")


PROGRAM = """
import importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
    if "torch" in sys.modules:
        sys.exit(f"importing {module} imports torch")
"""


@law(
    causes="import torch at the top of the package's __init__ or of the config's module; a config "
    "in the network's module; a class in place of its import path 'package.module:Class'"
)
def declaration_imports_no_torch(case: Case) -> None:
    """Importing the plugin and its config imports no torch, so `zoo info` stays fast."""
    if case.declaration is None or case.registry is None:
        return
    plugin = case.registry.plugin_of(case.declaration.name)
    modules = [word.partition(":")[0] for word in (plugin.module, case.declaration.config) if word]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM, *modules]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise BrokenLawError(done.stderr.strip().splitlines()[-1])


@law(
    causes="a hook that raises; a name that another package also uses; an outdated parameter count "
    "or an unknown key in models.toml; a summary of several lines"
)
def plugin_has_no_problems(case: Case) -> None:
    """The plugin loads without problems, and its models have the sizes that it states."""
    if case.declaration is None or case.registry is None:
        return
    registry, plugin = case.registry, case.registry.plugin_of(case.declaration.name)
    faults = [p.problem for p in registry.plugins.broken if p.distribution == plugin.distribution]
    problems = [*registry.plugins.problems, *registry.problems]
    faults += [problem for problem in problems if str(plugin) in problem]
    if "\n" in case.declaration.summary or not case.declaration.summary:
        faults.append("the architecture's summary must be one line")
    faults += [problem for problem in catalogue_problems(registry) if str(plugin) in problem]
    if faults:
        raise BrokenLawError("; ".join(faults))
