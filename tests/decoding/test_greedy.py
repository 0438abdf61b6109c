"""Greedy search on scripted probabilities and with every architecture."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # the field's name for it

from tests.decoding.reference import scripted
from zoo.decoding.greedy import greedy, greedy_search
from zoo.decoding.options import Search
from zoo.decoding.task import Task, target_limits
from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN
from zoo.registry.registry import default_registry
from zoo.testing import case


def test_scores_count_the_end_token() -> None:
    #          pad  beg  end  unk   a    b
    model, source = scripted(
        [[0.0, 0.0, 0.1, 0.0, 0.6, 0.3], [0.0, 0.0, 0.5, 0.0, 0.2, 0.3]],
        [[0.0, 0.0, 0.7, 0.0, 0.2, 0.1], [0.0, 0.0, 0.5, 0.0, 0.2, 0.3]],
    )
    task = Task(model, model.encode(source, source != 0).memory, source != 0)
    (first,), (second,) = greedy_search(task, Search(allow_empty=True))
    assert (first.tokens, first.finished) == ((4,), True)
    assert first.score == pytest.approx(torch.tensor(0.6 * 0.5).log().item())
    assert (second.tokens, second.finished) == ((), True)
    assert second.score == pytest.approx(torch.tensor(0.7).log().item())
    # By default the end token may not come first; the score is still the network's probability.
    first, second = greedy(model, source, source != 0)
    assert first.tokens == (4,)
    assert (second.tokens, second.finished) == ((4,), True)
    assert second.score == pytest.approx(torch.tensor(0.2 * 0.5).log().item())


def test_padding_begin_and_unknown_are_never_written() -> None:
    model, source = scripted([[0.3, 0.2, 0.05, 0.25, 0.1, 0.1], [0.3, 0.2, 0.2, 0.2, 0.1, 0.0]])
    (hypothesis,) = greedy(model, source, source != 0)
    assert hypothesis.tokens == (4,)
    assert not {PADDING, BEGIN, UNKNOWN} & set(hypothesis.tokens)
    # Their probability is not distributed among the others.
    assert hypothesis.score == pytest.approx(torch.tensor(0.1 * 0.2).log().item())


def test_a_hypothesis_without_end_is_cut_at_the_limit_and_not_finished() -> None:
    model, source = scripted([[0.0, 0.0, 0.1, 0.0, 0.9, 0.0]])
    (hypothesis,) = greedy(model, source, source != 0)
    assert len(hypothesis.tokens) == 3 * 1 + 20
    assert not hypothesis.finished
    (hypothesis,) = greedy(model, source, source != 0, limit=6)
    assert len(hypothesis.tokens) == 5, "the limit counts the begin token too"


def test_length_limits_depend_on_the_sentence_alone() -> None:
    assert target_limits(torch.tensor([3, 9]), None).tolist() == [29, 47]
    assert target_limits(torch.tensor([3, 9]), 40).tolist() == [29, 39]


@pytest.mark.parametrize("architecture", sorted(default_registry().architectures))
def test_greedy_search_takes_the_most_probable_token_of_forward(architecture: str) -> None:
    """Compared with a search that calls `forward` on the whole prefix for every token."""
    tried = case(architecture)
    limit = 12
    hypotheses = greedy(tried.model, tried.source, tried.mask, limit)
    for row, hypothesis in enumerate(hypotheses):
        length = int(tried.mask[row].sum())
        source, mask = tried.source[row : row + 1, :length], tried.mask[row : row + 1, :length]
        tokens, score = [BEGIN], 0.0
        with torch.no_grad():
            while tokens[-1] != END and len(tokens) < limit:
                log_probs = (
                    tried.model(source, mask, torch.tensor([tokens])).logits[0, -1].log_softmax(-1)
                )
                log_probs[[PADDING, BEGIN, UNKNOWN]] = -torch.inf
                if len(tokens) == 1:
                    log_probs[END] = -torch.inf
                tokens.append(int(log_probs.argmax()))
                score += float(log_probs.max())
        finished = tokens[-1] == END
        assert list(hypothesis.tokens) == tokens[1 : -1 if finished else None]
        assert hypothesis.finished == finished
        assert hypothesis.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("architecture", sorted(default_registry().architectures))
def test_batching_changes_no_result(architecture: str) -> None:
    tried = case(architecture)
    together = greedy(tried.model, tried.source, tried.mask, 20)
    padded = greedy(tried.model, F.pad(tried.source, (0, 2)), F.pad(tried.mask, (0, 2)), 20)
    assert [h.tokens for h in padded] == [h.tokens for h in together]
    for row in range(len(together)):
        source, mask = tried.source[row : row + 1], tried.mask[row : row + 1]
        (alone,) = greedy(tried.model, source, mask, 20)
        assert alone.tokens == together[row].tokens
        assert alone.score == pytest.approx(together[row].score, abs=1e-4)
