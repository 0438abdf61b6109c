"""Entries of the open shelves, each with one mistake: the code of a plugin's module."""

CODE = """
import random
import re

import torch
from torch import nn

import zoo.training
from zoo import (Augmentation, Initialization, LogitsProcessor, Optimizer, Processor, Schedule,
                 Splitter, TextTokenizer, TokenizerKind)


def entries(kind, *names):
    for name in names:
        yield kind(name, "a mistake", f"zoo_visitor:{name}")


@hookimpl
def zoo_schedules():
    yield from entries(Schedule, "Below", "DividesByWarmup", "Fixed", "Never", "Shared", "Drawn",
                       "Forgets", "LeavesOut")


class Below:
    def __init__(self, recipe):
        self.recipe = recipe

    def __call__(self, progress):
        return self.recipe.learning_rate * (1 - 1.1 * progress.done)


class DividesByWarmup(Below):
    def __call__(self, progress):
        return self.recipe.learning_rate * min(1, progress.step / self.recipe.warmup)


class Fixed(Below):
    def __call__(self, progress):
        return 0.01


class Never(Below):
    def __call__(self, progress):
        return self.recipe.learning_rate * (progress.step // 1000)


class Shared(Below):
    calls = 0

    def __call__(self, progress):
        Shared.calls += 1
        return self.recipe.learning_rate / Shared.calls


class Drawn(Below):
    def __call__(self, progress):
        return self.recipe.learning_rate * random.random()


class Forgets(Below):
    def __init__(self, recipe):
        self.rate = recipe.learning_rate

    def __call__(self, progress):
        self.rate *= 0.9
        return self.rate


class LeavesOut(Forgets):
    def __init__(self, recipe):
        super().__init__(recipe)
        self.calls = 0

    def __call__(self, progress):
        self.calls += 1
        return super().__call__(progress) / self.calls

    def state_dict(self):
        return {"rate": self.rate}

    def load_state_dict(self, state):
        self.rate = state["rate"]


@hookimpl
def zoo_optimizers():
    yield from entries(Optimizer, "joined", "some", "OwnRate", "Matrices", "NoCheck", "Ascends",
                       "OwnMean", "PythonNoise", "LooksAhead")


def joined(groups, recipe):
    weights = [weight for group in groups for weight in group["params"]]
    return torch.optim.SGD(weights, lr=1.0, weight_decay=recipe.weight_decay)


def some(groups, recipe):
    return torch.optim.SGD(groups[:1], lr=1.0)


class Descent(torch.optim.Optimizer):
    def __init__(self, groups, recipe):
        super().__init__(groups, {"lr": recipe.learning_rate})
        self.recipe = recipe
        self.means = {}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self.change(weight, group)

    def change(self, weight, group):
        weight.sub_(weight.grad, alpha=group["lr"])


class OwnRate(Descent):
    def change(self, weight, group):
        weight.sub_(weight.grad, alpha=self.recipe.learning_rate)


class Matrices(Descent):
    def change(self, weight, group):
        if weight.dim() > 1:
            super().change(weight, group)


class NoCheck(Descent):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                self.change(weight, group)


class Ascends(Descent):
    def change(self, weight, group):
        weight.add_(weight.grad, alpha=group["lr"])


class OwnMean(Descent):
    def change(self, weight, group):
        mean = self.means.setdefault(weight, torch.zeros_like(weight))
        weight.sub_(mean.lerp_(weight.grad, 0.1), alpha=group["lr"])


class PythonNoise(Descent):
    def change(self, weight, group):
        weight.sub_(weight.grad, alpha=group["lr"] * (1 + random.random()))


class LooksAhead(Descent):
    count = 0

    def step(self):
        super().step()
        self.count += 1

    def change(self, weight, group):
        slow = self.means.setdefault(weight, weight.clone())
        super().change(weight, group)
        if self.count % 10 == 9:
            weight.copy_(slow.lerp_(weight, 0.5))


@hookimpl
def zoo_initializations():
    yield from entries(Initialization, "replaces", "endless", "unseeded", "seeded", "sets_seed",
                       "wide", "constant", "nothing_left")


def matrices(network, table):
    return [network.get_parameter(row.path) for row in table if len(row.shape) > 1]


def replaces(network, table):
    for row in table:
        module, _, name = row.path.rpartition(".")
        weight = network.get_parameter(row.path).detach().clone()
        setattr(network.get_submodule(module), name, nn.Parameter(weight))


def endless(network, table):
    for weight in matrices(network, table):
        weight.div_(0.0)


def unseeded(network, table):
    for weight in matrices(network, table):
        weight.normal_(0, 0.1, generator=torch.Generator().manual_seed(random.getrandbits(32)))


def seeded(network, table):
    draws = torch.Generator().manual_seed(0)
    for weight in matrices(network, table):
        weight.normal_(0, 0.2, generator=draws)


def sets_seed(network, table):
    torch.manual_seed(0)
    for weight in matrices(network, table):
        weight.normal_(0, 0.2)


def wide(network, table):
    for weight in matrices(network, table):
        weight.normal_(0, 5)


def constant(network, table):
    for weight in network.parameters():
        weight.fill_(0.05)


def nothing_left(network, table):
    for row in table:
        network.get_parameter(row.path).zero_()


@hookimpl
def zoo_augmentations():
    yield from entries(Augmentation, "CutsEnds", "UnknownIds", "Longer", "GoesOn", "TorchCorpus",
                       "InPlaceCorpus", "InPlaceBatch", "NoMask", "PythonBatch", "OwnGenerator",
                       "OneMask", "Idle")


class Changes(zoo.training.Augmentation):
    def __init__(self, setup, probability: float = 0.5):
        self.probability = probability
        self.draws = random.Random(setup.recipe.seed)

    def changed(self, row, epoch):
        return row

    def corpus(self, corpus, epoch):
        starts = corpus.source.starts
        rows = [corpus.source.tokens[i:j].tolist() for i, j in zip(starts, starts[1:])]
        rows = [self.changed(row, epoch) for row in rows]
        source = zoo.training.Sequences.of(rows)
        return zoo.training.Corpus(source, corpus.target, corpus.left_out)


class CutsEnds(Changes):
    def changed(self, row, epoch):
        return row[:-1]


class UnknownIds(Changes):
    def changed(self, row, epoch):
        return [900, *row]


class Longer(Changes):
    def changed(self, row, epoch):
        return [*row[:-1], *[4] * 60, *row[-1:]]


class GoesOn(Changes):
    def changed(self, row, epoch):
        return [*row[-2::-1], *row[-1:]] if self.draws.random() < 0.5 else row


class TorchCorpus(Changes):
    def changed(self, row, epoch):
        return [*row[-2::-1], *row[-1:]] if torch.rand(()) < 0.5 else row


class InPlaceCorpus(Changes):
    def corpus(self, corpus, epoch):
        corpus.source.tokens[0] = 5 + epoch
        return corpus


class InPlaceBatch(Changes):
    def batch(self, source, inputs):
        return source, inputs.masked_fill_(inputs > 5, 3)


class NoMask(Changes):
    def batch(self, source, inputs):
        return source.masked_fill(torch.rand(source.shape) < 0.5, 3), inputs


class PythonBatch(Changes):
    def batch(self, source, inputs):
        drawn = torch.tensor([[random.random() < 0.5 for _ in row] for row in source])
        return source.masked_fill(drawn & (source > 3), 3), inputs


class OwnGenerator(Changes):
    def __init__(self, setup):
        self.generator = torch.Generator().manual_seed(setup.recipe.seed)

    def batch(self, source, inputs):
        drawn = torch.rand(source.shape, generator=self.generator) < 0.5
        return source.masked_fill(drawn & (source > 3), 3), inputs


class OneMask(OwnGenerator):
    def batch(self, source, inputs):
        self.generator.manual_seed(0)
        return super().batch(source, inputs)


class Idle(Changes):
    def batches(self, source, inputs):
        return source.masked_fill(source > 3, 3), inputs


@hookimpl
def zoo_tokenizers():
    yield from entries(TokenizerKind, "TooMany", "OnlySeen", "Remembers", "NoSpaces", "Nothing",
                       "SomeIds", "NoOption")


class Words(TextTokenizer):
    def __init__(self, tokens, end="."):
        self.tokens, self.end, self.before = tokens, end, 3
        self.ids = {token: id for id, token in enumerate(tokens) if id > 3}

    @classmethod
    def learned(cls, texts):
        return list(dict.fromkeys(part for text in texts for part in re.split("( )", text) if part))

    @classmethod
    def train(cls, texts, vocab_size: int, end: str = ","):
        return cls((*cls.SPECIALS, *cls.learned(texts))[:vocab_size], end)

    @classmethod
    def parse(cls, tokens, content):
        return cls(tokens)

    def encode(self, text):
        return [self.ids.get(part, 3) for part in re.split("( )", text) if part]

    def decode(self, ids):
        return "".join(self.tokens[id] for id in ids)


class TooMany(Words):
    @classmethod
    def learned(cls, texts):
        return [str(number) for number in range(400)]

    @classmethod
    def train(cls, texts, vocab_size: int):
        return cls((*cls.SPECIALS, *cls.learned(texts)))


class OnlySeen(Words):
    def encode(self, text):
        return [self.ids[part] for part in re.split("( )", text) if part]


class Remembers(Words):
    def encode(self, text):
        ids = [self.before, *super().encode(text)]
        self.before = ids[-1]
        return ids


class NoSpaces(Words):
    def decode(self, ids):
        return super().decode(ids).replace(" ", "")


class Nothing(Words):
    @classmethod
    def learned(cls, texts):
        return ["a"]


class SomeIds(Words):
    def decode(self, ids):
        words = super().decode(ids).split(" ")
        if "" in words[1:-1]:
            raise ValueError("two spaces")
        return super().decode(ids)


class NoOption(Words):
    def encode(self, text):
        return super().encode(text.replace(self.end, "."))


@hookimpl
def zoo_logits_processors():
    yield from entries(Processor, "Positive", "InPlace", "Silent", "Probabilities", "NoBans",
                       "OneForAll", "Counts", "InPlaceState", "RowIndex", "MeanOfRows",
                       "OnTheObject", "Lasts", "AsLongAsTheLongest")


class Base(LogitsProcessor):
    changes_scores = True

    def __init__(self, task):
        self.task = task


class Positive(Base):
    def process(self, scores, rows, state):
        return scores + 5


class InPlace(Base):
    def process(self, scores, rows, state):
        return scores.mul_(2)


class Silent(Base):
    changes_scores = False

    def bans(self, position, state):
        return None

    def process(self, scores, rows, state):
        return scores * 2


class Probabilities(Base):
    def process(self, scores, rows, state):
        return scores.exp()


class NoBans(Base):
    changes_scores = False

    def bans(self, position, state):
        return ()

    def process(self, scores, rows, state):
        again = torch.zeros_like(scores).scatter(1, rows.written, 1)
        return scores.masked_fill(again.bool(), -torch.inf)


class OneForAll(NoBans):
    def init_state(self, sentence):
        return torch.zeros_like(sentence)

    def update(self, state, token, attention):
        return token

    def bans(self, position, state):
        return (int(state[0]),)


class Lasts(LogitsProcessor):
    def __init__(self, task):
        pass

    def bans(self, position, state):
        return (5,) if position < 4 else ()

    def bans_last(self, position, state):
        return 4


class Counts(Base):
    def __init__(self, task):
        self.count = 1

    def update(self, state, token, attention):
        self.count += 1
        return state

    def process(self, scores, rows, state):
        return scores * self.count


class InPlaceState(Base):
    def init_state(self, sentence):
        return torch.ones(len(sentence))

    def update(self, state, token, attention):
        return state.add_(1)

    def process(self, scores, rows, state):
        return scores * state[:, None]


class RowIndex(Base):
    def process(self, scores, rows, state):
        return scores * (1 + torch.arange(len(scores)))[:, None]


class MeanOfRows(Base):
    def process(self, scores, rows, state):
        return scores + scores.mean(0)


class OnTheObject(Base):
    def init_state(self, sentence):
        self.last = torch.zeros_like(sentence)
        return ()

    def update(self, state, token, attention):
        self.last = self.last + token
        return state

    def process(self, scores, rows, state):
        return scores * (1 + self.last[:, None])


class AsLongAsTheLongest(LogitsProcessor):
    def __init__(self, task):
        self.lengths = task.mask.sum(1).amax().expand(len(task))

    def max_lengths(self):
        return self.lengths


@hookimpl
def zoo_splitters():
    yield from entries(Splitter, "Drops", "FewLanguages", "Lowers", "Leading", "Blank",
                       "KeepsTheLast", "OneLanguage")


class Marks:
    languages = {}

    def __init__(self, language):
        self.language, self.last = language, ""

    def __call__(self, line):
        return [part for part in re.findall(r"[^.]*(?:[.]+\\s*|$)", line) if part]


class Drops(Marks):
    def __call__(self, line):
        return line.split(".")


class FewLanguages(Marks):
    def __init__(self, language):
        self.marks = {"en": ".", "de": "."}[language]


class Lowers(Marks):
    def __call__(self, line):
        return super().__call__(line.lower())


class Leading(Marks):
    def __call__(self, line):
        return [part for part in re.findall(r"[^.]*(?:[.]+|$)", line) if part]


class Blank(Marks):
    def __call__(self, line):
        return [part for part in re.split(r"(\\s+)", line) if part]


class KeepsTheLast(Marks):
    def __call__(self, line):
        same, self.last = line[:3] == self.last[:3], line
        return [line] if same else super().__call__(line)


class OneLanguage(Marks):
    def __init__(self, language):
        Marks.languages["last"] = language

    def __call__(self, line):
        return [line] if Marks.languages["last"] == "en" else super().__call__(line)
"""

WRONG = {
    "schedules": {
        "Below": "rates_are_numbers",
        "DividesByWarmup": "rates_are_numbers",
        "Fixed": "recipe_sets_the_rate",
        "Never": "recipe_sets_the_rate",
        "Shared": "equal_runs_have_equal_rates",
        "Drawn": "equal_runs_have_equal_rates",
        "Forgets": "resumed_run_has_the_same_rates",
        "LeavesOut": "resumed_run_has_the_same_rates",
    },
    "optimizers": {
        "joined": "groups_are_kept",
        "some": "groups_are_kept",
        "OwnRate": "rate_of_the_group_counts",
        "Matrices": "rate_of_the_group_counts",
        "NoCheck": "weights_without_a_gradient_stay",
        "Ascends": "loss_falls",
        "OwnMean": "resumed_run_makes_the_same_updates",
        "PythonNoise": "resumed_run_makes_the_same_updates",
        "LooksAhead": "resumed_run_makes_the_same_updates",
    },
    "initializations": {
        "replaces": "weights_change_in_place",
        "endless": "weights_change_in_place",
        "unseeded": "one_seed_gives_one_network",
        "seeded": "one_seed_gives_one_network",
        "sets_seed": "one_seed_gives_one_network",
        "wide": "first_loss_is_small",
        "constant": "network_learns",
        "nothing_left": "network_learns",
    },
    "augmentations": {
        "CutsEnds": "corpus_keeps_its_pairs",
        "UnknownIds": "corpus_keeps_its_pairs",
        "Longer": "corpus_keeps_its_pairs",
        "GoesOn": "epoch_depends_on_seed_and_number",
        "TorchCorpus": "epoch_depends_on_seed_and_number",
        "InPlaceCorpus": "what_is_given_stays",
        "InPlaceBatch": "what_is_given_stays",
        "NoMask": "batch_keeps_its_padding",
        "PythonBatch": "batch_draws_from_torch",
        "OwnGenerator": "batch_draws_from_torch",
        "OneMask": "batch_draws_from_torch",
        "Idle": "something_changes",
    },
    "tokenizers": {
        "TooMany": "vocabulary_has_its_size",
        "OnlySeen": "every_text_has_ids",
        "Remembers": "texts_are_encoded_alone",
        "NoSpaces": "decoded_texts_have_the_same_ids",
        "Nothing": "decoded_texts_have_the_same_ids",
        "SomeIds": "any_ids_have_a_text",
        "NoOption": "file_gives_the_same_tokenizer",
    },
    "processors": {
        "Positive": "results_are_scores",
        "Lasts": "bans_last_as_long_as_they_say",
        "InPlace": "results_are_scores",
        "Silent": "results_are_scores",
        "Probabilities": "results_are_scores",
        "NoBans": "process_bans_what_bans_gives",
        "OneForAll": "process_bans_what_bans_gives",
        "Counts": "processor_is_immutable",
        "InPlaceState": "processor_is_immutable",
        "RowIndex": "batches_do_not_matter",
        "MeanOfRows": "batches_do_not_matter",
        "AsLongAsTheLongest": "batches_do_not_matter",
        "OnTheObject": "rows_can_be_reordered",
    },
    "splitters": {
        "Drops": "sentences_make_up_the_line",
        "FewLanguages": "sentences_make_up_the_line",
        "Lowers": "sentences_make_up_the_line",
        "Leading": "space_follows_its_sentence",
        "Blank": "space_follows_its_sentence",
        "KeepsTheLast": "lines_are_split_alone",
        "OneLanguage": "lines_are_split_alone",
    },
}
"""The mistakes of each shelf, each with the laws that fail; the others hold, or wait for these."""
