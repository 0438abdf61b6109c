"""The best continuations and tokens, compared with a sort of all of them."""

from __future__ import annotations

import pytest
import torch

from zoo.decoding.candidates import argmax, best_continuations, best_token, log_normalizer


@pytest.mark.sweep
@pytest.mark.parametrize("spread", [3, 40, 100_000])
@pytest.mark.parametrize("sizes", [(5, 40), (257, 700)], ids=str)
@pytest.mark.parametrize("banned", [(0, 1, 3), (0, 1, 2, 3), (0, 1, 3, 70, 255)], ids=str)
def test_chunks_give_the_same_continuations_as_a_sort(
    spread: int, sizes: tuple[int, int], banned: tuple[int, ...]
) -> None:
    """Scores are integers: with a small spread, most are equal, within chunks and across them."""
    torch.manual_seed(spread + len(banned))
    for _ in range(100):
        sentences, width, k = (int(torch.randint(1, 7, ())) for _ in range(3))
        vocab = int(torch.randint(*sizes, ()))
        banned = tuple(token for token in banned if token < vocab)
        logits = torch.randint(-spread, spread, (sentences * width, vocab)).double()
        score = torch.randint(-3, 1, (sentences, width)).double()
        score[torch.rand(score.shape) < 0.2] = -torch.inf
        base = score - log_normalizer(logits, logits.amax(1)).view_as(score)
        scores = logits.view(sentences, width, vocab) + base[..., None]
        scores[..., list(banned)] = -torch.inf
        before = logits.clone()
        actual = best_continuations(logits, score, k, banned)
        assert torch.equal(logits, before)
        for i, row in enumerate(scores.flatten(1).tolist()):
            expected = sorted(range(len(row)), key=lambda index: (-row[index], index))[:k]
            assert actual.score[i].tolist() == [row[index] for index in expected]
            real = [index for index in expected if row[index] > -torch.inf]
            parents, tokens = (x[i, : len(real)].tolist() for x in (actual.parent, actual.token))
            assert parents == [index // vocab for index in real]
            assert tokens == [index % vocab for index in real]


@pytest.mark.parametrize("vocab", [7, 300, 513])
@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_scores_with_few_allowed_tokens(vocab: int, allowed: int) -> None:
    """Normalized scores are used unchanged; a missing continuation is −inf with valid indices."""
    torch.manual_seed(vocab + allowed)
    scores = torch.full((6, vocab), -torch.inf)
    for row in scores:
        row[torch.randperm(vocab)[:allowed]] = -torch.rand(allowed)
    prefix = -torch.rand(3, 2)
    candidates = best_continuations(scores, prefix, 5, normalized=True)
    total = (scores.view(3, 2, vocab) + prefix[..., None]).flatten(1)
    expected = total.sort(dim=1, descending=True, stable=True).values[:, :5]
    assert torch.equal(candidates.score, expected)
    assert candidates.parent.min() >= 0
    assert candidates.parent.max() < 2
    assert candidates.token.max() < vocab
    real = candidates.score > -torch.inf
    assert torch.equal(
        total.gather(1, candidates.parent * vocab + candidates.token)[real], expected[real]
    )


@pytest.mark.parametrize("spread", [3, 100_000])
def test_the_best_token_is_the_first_of_a_sort(spread: int) -> None:
    torch.manual_seed(spread)
    for _ in range(100):
        rows, vocab = int(torch.randint(1, 9, ())), int(torch.randint(6, 300, ()))
        scores = torch.randint(-spread, spread, (rows, vocab)).double()
        scores[torch.rand(scores.shape) < 0.3] = -torch.inf
        token = argmax(scores)
        for i, row in enumerate(scores.tolist()):
            assert int(token[i]) == min(range(vocab), key=lambda y: (-row[y], y))


@pytest.mark.parametrize("spread", [3, 40, 100_000])
@pytest.mark.parametrize("banned", [(), (0, 1, 3), (0, 1, 2, 3, 70)], ids=str)
def test_the_best_token_that_is_not_banned(spread: int, banned: tuple[int, ...]) -> None:
    torch.manual_seed(spread + len(banned))
    for _ in range(50):
        rows, vocab = int(torch.randint(1, 9, ())), int(torch.randint(71, 300, ()))
        logits = torch.randint(-spread, spread, (rows, vocab)).double()
        before = logits.clone()
        token, log_prob = best_token(logits, banned)
        assert torch.equal(logits, before)
        allowed = [y for y in range(vocab) if y not in banned]
        for i, row in enumerate(logits.tolist()):
            assert int(token[i]) == min(allowed, key=lambda y: (-row[y], y))
        expected = logits.log_softmax(1).gather(1, token[:, None])[:, 0]
        torch.testing.assert_close(log_prob, expected)


@pytest.mark.parametrize("shift", [0.0, 59.0, -59.0, 1e4, -1e4, 1e30])
def test_normalizers_of_large_and_small_logits(shift: float) -> None:
    """The largest normalizer may be far above and below what exponentials can be added up of."""
    torch.manual_seed(1)
    logits = torch.randn(70, 5000) + shift
    expected = logits.double().logsumexp(1).float()
    torch.testing.assert_close(log_normalizer(logits, logits.amax(1)), expected)
