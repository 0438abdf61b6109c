"""The hooks of the open shelves of text and decoding, each with its signature and an example."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from zoo.registry.hookspecs import hookspec

if TYPE_CHECKING:
    from zoo.registry.text_entries import Processor, SearchMethod, Splitter, TokenizerKind


@hookspec
def zoo_logits_processors() -> Iterable[Processor]:  # type: ignore[empty-body]  # a specification
    """Return the logits processors that this plugin brings, for `--processor` and `zoo.Search`.

    The class is an import path, imported when a search names the processor. It is called with the
    task of each batch, and returns a `zoo.LogitsProcessor`: a rule that every search applies to the
    log probabilities of the next token. Further parameters are options: `--processor
    early-end:after=20`. The state of a processor is passed in, so that it moves with the rows of a
    beam. One whose bans stay the same for some positions may say so in `bans_last`: a network can
    then take several steps at once, and a GPU goes on without Python, unless a processor overrides
    `update` or `penalty`. `zoo.LogitsProcessor` imports torch: in a package that also
    declares something else, put the class into a module of its own, so that `zoo list` stays fast.

    Example:
        from zoo import LogitsProcessor, Processor, hookimpl

        ZOO_API = 2
        END = 2


        @hookimpl
        def zoo_logits_processors():
            yield Processor("early-end", "favors the end token", "zoo_early:EarlyEnd")


        class EarlyEnd(LogitsProcessor):
            "Takes the square root of the end token's probability after some tokens."

            changes_scores = True

            def __init__(self, task, after: int = 20):
                self.after = after

            def bans(self, position, state):
                return () if position <= self.after else None

            def process(self, scores, rows, state):
                scores = scores.clone()
                if rows.position > self.after:
                    scores[:, END] /= 2
                return scores
    """


@hookspec
def zoo_searches() -> Iterable[SearchMethod]:  # type: ignore[empty-body]  # a specification
    """Return the searches that this plugin brings, for `--search` and `zoo.Search(method=…)`.

    The function is an import path, imported when the search is first named. It is called with a
    task and the `zoo.Search` for each batch, and returns a list of `zoo.Hypothesis` for each
    sentence, the best first. `len(task)` is the number of sentences, `task.model.init_state` and
    `task.step` are those of the network. A `zoo.Pipeline` applies the logits processors, holds the
    maximum lengths, and makes and ranks hypotheses. Further parameters are options. Test it with
    `zoo.testing.search_conformance`. A function that needs torch when its module is imported, as
    here, belongs into a module of its own.

    Example:
        import torch
        from zoo import Pipeline, Rows, SearchMethod, hookimpl
        from zoo.nn import gather

        ZOO_API = 2
        BEGIN, END = 1, 2


        @hookimpl
        def zoo_searches():
            yield SearchMethod("starts", "greedy, from several first tokens", "zoo_starts:search")


        def search(task, options, starts: int = 3):
            return [one(task.sentence(i), options, starts) for i in range(len(task))]


        def one(task, options, starts):
            "Write the most probable first tokens, one a row, and continue each by the best token."
            pipeline = Pipeline(task, options)
            rows = torch.zeros(1, dtype=torch.long)
            state, states = task.model.init_state(task.memory), pipeline.init_state(rows)
            token, written = torch.full((1,), BEGIN), torch.zeros(1, 0, dtype=torch.long)
            score = log_prob = torch.zeros(1)
            found = []
            while len(rows):
                step = task.step(token, state, task.memory, pipeline.needs_attention)
                states = pipeline.update(states, token, step.attention)
                log_probs = step.logits.log_softmax(1)
                scores = pipeline.process(states, Rows(rows, written, log_probs))
                best, token = scores.topk(1 if written.shape[1] else starts, dim=1)
                parent = torch.arange(len(rows)).repeat_interleave(best.shape[1])
                token, rows = token.flatten(), rows[parent]
                score = score[parent] + best.flatten()
                log_prob = log_prob[parent] + log_probs[parent, token]
                written = torch.cat([written[parent], token[:, None]], 1)
                state, states = gather(step.state, parent), gather(states, parent)
                over = (token == END) | (written.shape[1] >= pipeline.max_lengths[rows])
                over &= score.isfinite()
                found += pipeline.hypotheses(written, score, log_prob, states, rows, over)
                live = (~over & score.isfinite()).nonzero()[:, 0]
                columns = (token, rows, score, log_prob, written)
                token, rows, score, log_prob, written = (column[live] for column in columns)
                state, states = gather(state, live), gather(states, live)
            return pipeline.best(found)
    """


@hookspec
def zoo_splitters() -> Iterable[Splitter]:  # type: ignore[empty-body]  # a specification
    """Return what this plugin brings to split texts into sentences, for `--splitter`.

    The class is an import path, imported when a splitter is named. It is called once with the code
    of the texts' language, which may be empty, and returns a function of a line. That returns the
    sentences of the line, each with the white space after it; together they are the line. Further
    parameters are options: `--splitter marks:marks=.;`.

    Example:
        import re

        from zoo import Splitter, hookimpl

        ZOO_API = 2


        @hookimpl
        def zoo_splitters():
            yield Splitter("marks", "after every mark, for every language", "zoo_marks:AfterMarks")


        class AfterMarks:
            def __init__(self, language, marks: str = ".!?"):
                marks = re.escape(marks)
                self.sentence = re.compile(rf"[^{marks}]*(?:[{marks}]+\\s*|$)")

            def __call__(self, line):
                return [part for part in self.sentence.findall(line) if part]
    """


@hookspec
def zoo_tokenizers() -> Iterable[TokenizerKind]:  # type: ignore[empty-body]  # a specification
    r"""Return the kinds of tokenizer that this plugin brings, for `tokenizer` in a recipe.

    The object is an import path, imported when a recipe or a checkpoint names the kind. It is a
    subclass of `zoo.TextTokenizer`, or a function of texts and the largest size of the vocabulary
    that returns a tokenizer of the library `tokenizers`, whose ids 0 to 3 are the special tokens.
    In its tokens ▁ is a space, as Metaspace marks it: the zoo joins them, without a decoder.
    Further parameters of `train`, or of the function, are options: `tokenizer = {name =
    "syllables", vowels = "aeiou"}`.

    A checkpoint with a `zoo.TextTokenizer` needs this package to be read; its file, which is
    checked before, names the package. A tokenizer of the library needs only the zoo; it may have
    the components that the zoo accepts in a file.

    Example:
        import re
        from collections import Counter

        from zoo import TextTokenizer, TokenizerKind, hookimpl

        ZOO_API = 2
        UNKNOWN = 3


        @hookimpl
        def zoo_tokenizers():
            yield TokenizerKind("syllables", "runs up to a vowel", "zoo_syllables:Syllables")


        class Syllables(TextTokenizer):
            def __init__(self, tokens, vowels):
                self.tokens, self.vowels = tokens, vowels
                ids = enumerate(tokens)
                self.ids = {token: id for id, token in ids if id > UNKNOWN}

            def cut(self, text):
                marked = text.replace(" ", "▁")
                return re.findall(rf"[^{self.vowels}]*[{self.vowels}]|[^{self.vowels}]+", marked)

            @classmethod
            def train(cls, texts, vocab_size: int, vowels: str = "aeiou"):
                untrained = cls(cls.SPECIALS, vowels)
                counts = Counter(part for text in texts for part in untrained.cut(text))
                most = [part for part, _ in counts.most_common() if part not in cls.SPECIALS]
                return cls((*cls.SPECIALS, *most)[:vocab_size], vowels)

            @classmethod
            def parse(cls, tokens, content):
                if not re.fullmatch(r"\w{1,20}", str(content["vowels"])):
                    raise ValueError("vowels must be up to 20 letters")
                return cls(tokens, content["vowels"])

            def content(self):
                return {"vowels": self.vowels}

            def encode(self, text):
                return [self.ids.get(part, UNKNOWN) for part in self.cut(text)]

            def decode(self, ids):
                return "".join(self.tokens[id] for id in ids).replace("▁", " ")
    """
