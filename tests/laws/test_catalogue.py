"""The catalogue's parameter counts equal those of the tables, the networks and the papers."""

import pytest

from zoo.nn.build import build, network_type
from zoo.registry.registry import Registry, default_registry

models = pytest.mark.parametrize("model", sorted(default_registry().models))


def test_the_registry_has_no_problems(registry: Registry) -> None:
    assert registry.problems == []
    assert registry.plugins.broken == []


def test_every_family_has_a_full_and_a_tiny_model(registry: Registry) -> None:
    full = {"seq2seq-lstm4", "rnnsearch", "convs2s", "transformer-6x6", "t5-base"}
    tiny = {"seq2seq-tiny", "rnnsearch-tiny", "convs2s-tiny", "transformer-tiny", "t5-tiny"}
    assert full | tiny <= set(registry.models)
    assert {registry.models[m].architecture for m in tiny} == set(registry.architectures)


@models
def test_parameters_match_table_and_network(registry: Registry, model: str) -> None:
    entry = registry.models.find(model)
    config = registry.config(model)
    table = config.parameters(entry.source_vocab, entry.target_vocab)
    network = network_type(registry.architecture(entry.architecture))
    built = build(network, config, entry.source_vocab, entry.target_vocab, "meta")
    counted = sum(weight.numel() for weight in built.parameters())
    assert entry.parameters == table.total == counted
    shapes: dict[str, int] = {}
    for row in table:
        shapes[row.path] = shapes.get(row.path, 0) + row.count
    assert shapes == {name: weight.numel() for name, weight in built.named_parameters()}


def test_the_6x6_transformer_has_59_508_496_parameters(registry: Registry) -> None:
    assert registry.config("transformer-6x6").parameters(10_000, 10_000).total == 59_508_496


def test_parameters_match_the_papers_that_state_them(registry: Registry) -> None:
    # Sutskever et al. 2014, section 3.4: 384M, at 160,000 source and 80,000 target words.
    config = registry.config("seq2seq-lstm4", {"context": False})
    assert round(config.parameters(160_000, 80_000).total, -6) == 384_000_000
    # Vaswani et al. 2017, table 3, rounded, at "about 37,000" tokens.
    stated = {"transformer-base": 0.04, "transformer-big": 0.01}
    # Raffel et al. 2020, section 3.7, and Xue et al. 2021 and 2022: rounded to two digits.
    stated |= {"t5-small": 0.01, "t5-base": 0.02, "t5-large": 0.05}
    stated |= dict.fromkeys(("mt5-small", "mt5-base", "byt5-small", "byt5-base"), 0.01)
    for name, within in stated.items():
        entry = registry.models.find(name)
        assert entry.paper_parameters is not None
        assert abs(entry.parameters / entry.paper_parameters - 1) < within


def test_another_vocabulary_gives_another_count(registry: Registry) -> None:
    entry = registry.models.find("transformer-6x6")
    table = registry.config("transformer-6x6").parameters(entry.source_vocab, 9_999)
    assert table.total != entry.parameters


@pytest.mark.parametrize("name", sorted(default_registry().recipes))
def test_named_recipes_fit_their_models(registry: Registry, name: str) -> None:
    from zoo.training.plan import make_plan
    from zoo.training.request import TrainingRequest

    task = name.rpartition(".")[2]
    # The recipe auto is for data without a recipe.
    tasks = {d.recipe or d.name: d.name for d in registry.datasets.values()}
    tasks |= {name: name for name in registry.datasets}
    data = tasks[task] if task != "auto" else "shift"
    models = [name.partition(".")[0]] if "." in name else registry.models
    for model in models:
        request = TrainingRequest(model, data, "unused", recipe=name if task == "auto" else None)
        assert make_plan(registry, request).recipe
