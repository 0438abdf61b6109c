"""The likeliest continuations, against a sort of all of them."""

import pytest
import torch

from zoo.decoding.candidates import Allowed, best, likeliest, log_total
from zoo.decoding.options import Search


@pytest.mark.parametrize("spread", [3, 40, 100_000])
@pytest.mark.parametrize("places", [1, 3])
def test_the_first_look_finds_what_a_sort_finds(spread: int, places: int) -> None:
    """Whole numbers: with a small spread nearly all are equal, within chunks and across them."""
    torch.manual_seed(spread + places)
    allowed = Allowed(places, Search(min_length=2), torch.zeros(1, 0, dtype=torch.long))
    for _ in range(100):
        sentences, width, k = (int(torch.randint(1, 7, ())) for _ in range(3))
        vocab = int(torch.randint(257, 700, ()))
        logits = torch.randint(-spread, spread, (sentences * width, vocab)).double()
        score = torch.randint(-3, 1, (sentences, width)).double()
        score[torch.rand(score.shape) < 0.2] = -torch.inf
        base = score - log_total(logits, logits.amax(1)).view_as(score)
        chances = logits.view(sentences, width, vocab) + base[..., None]
        chances[..., allowed.banned] = -torch.inf
        found = likeliest(logits, score, k, allowed)
        for i, row in enumerate(chances.flatten(1).tolist()):
            want = sorted(range(len(row)), key=lambda place: (-row[place], place))[:k]
            assert found.score[i].tolist() == [row[place] for place in want]
            real = [place for place in want if row[place] > -torch.inf]
            parents, tokens = (x[i, : len(real)].tolist() for x in (found.parent, found.token))
            assert parents == [place // vocab for place in real]
            assert tokens == [place % vocab for place in real]


@pytest.mark.parametrize("spread", [3, 100_000])
@pytest.mark.parametrize("longest", [0, 2])
def test_the_best_is_the_first_of_a_sort(spread: int, longest: int) -> None:
    torch.manual_seed(spread + longest)
    for _ in range(100):
        rows, vocab = int(torch.randint(1, 9, ())), int(torch.randint(6, 300, ()))
        prefix = torch.randint(4, vocab, (rows, longest)) * torch.randint(0, 2, (rows, longest))
        allowed = Allowed(1, Search(min_length=1 + rows % 2), prefix)
        logits = torch.randint(-spread, spread, (rows, vocab)).double()
        before = logits.clone()
        token, chance = best(logits, allowed)
        assert torch.equal(logits, before)
        wanted = logits.log_softmax(1)
        for i, row in enumerate(logits.tolist()):
            given = int(prefix[i, 0]) if longest else 0
            may = [given] if given else [y for y in range(vocab) if y not in allowed.banned]
            assert int(token[i]) == min(may, key=lambda y: (-row[y], y))
        torch.testing.assert_close(chance, wanted.gather(1, token[:, None])[:, 0])
