"""Laws of what is declared: the config, the plugin, and the models of the catalogue."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from zoo.errors import ConfigError
from zoo.registry.config import parse_settings
from zoo.testing.case import Case
from zoo.testing.law import BrokenLawError, law


@law(
    causes="a type that JSON does not know, or a list where a tuple was; a validator that changes "
    "values; model_config that allows unknown keys; a field without Field(description=…)"
)
def config_round_trips(case: Case) -> None:
    """A config goes to JSON and back, however it is given, and every field is described."""
    kind, values = type(case.config), case.config.model_dump(mode="json")
    settings = parse_settings([f"{key}={json.dumps(value)}" for key, value in values.items()])
    for source, given in (("JSON", json.loads(json.dumps(values))), ("--set", settings)):
        again = kind.parse(given, "example")
        if again != case.config:
            raise BrokenLawError(f"config {case.config} comes back from {source} as {again}")
    try:
        kind.parse({**values, "no_such_key": 1}, "example")
    except ConfigError:
        pass
    else:
        raise BrokenLawError("the config takes an unknown key in silence")
    if not kind.model_config.get("frozen"):
        raise BrokenLawError("the config is not frozen")
    silent = [name for name, field in kind.model_fields.items() if not field.description]
    if silent:
        raise BrokenLawError(f"config fields without a description: {', '.join(silent)}")
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
    causes="import torch at the top of the package's __init__ or of the module of its config; a "
    "config in the network's module; a class given where its place 'package.module:Class' is "
    "meant"
)
def declaring_imports_no_torch(case: Case) -> None:
    """Importing the plugin, and its config, imports no torch: `zoo --help`, `zoo info` are fast."""
    if case.declared is None or case.registry is None:
        return
    plugin = case.registry.plugin_of(case.declared.name)
    modules = [word.partition(":")[0] for word in (plugin.module, case.declared.config) if word]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM, *modules]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise BrokenLawError(done.stderr.strip().splitlines()[-1])


@law(
    causes="a hook that raises; a name that another package has; a count or a key of models.toml "
    "that was not kept up; a summary of several lines"
)
def the_plugin_is_whole(case: Case) -> None:
    """Nothing of its plugin was left out, and each of its models has the size that is said."""
    if case.declared is None or case.registry is None:
        return
    names, plugin = case.registry, case.registry.plugin_of(case.declared.name)
    faults = [p.problem for p in names.plugins.broken if p.distribution == plugin.distribution]
    faults += [told for told in names.problems if str(plugin) in told]
    if "\n" in case.declared.summary or not case.declared.summary:
        faults.append("the architecture's summary is one line")
    for model in names.models.values():
        if model.architecture == case.declared.name:
            config = names.config(model.name)
            table = config.parameters(model.source_vocab, model.target_vocab)
            if model.parameters != table.total:
                faults.append(
                    f"{model.name} has {table.total:,} parameters, not {model.parameters:,}"
                )
    if faults:
        raise BrokenLawError("; ".join(faults))
