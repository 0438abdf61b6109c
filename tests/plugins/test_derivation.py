"""Every formula of docs/derivations/attention.md compared with autograd."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.nn.build import create_model

N, D, H = 7, 12, 3
WIDTH = D // H


def close(actual: Tensor, expected: Tensor | None) -> None:
    assert expected is not None
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def softmax(s: Tensor) -> Tensor:
    powers = (s - s.max(1, keepdim=True).values).exp()
    return powers / powers.sum(1, keepdim=True)


@pytest.mark.parametrize("causal", [False, True])
def test_the_formulas_equal_autograd(causal: bool) -> None:
    torch.manual_seed(0)
    model: Any = create_model("transformer-6x6", source_vocab=9, target_vocab=9, dim=D, heads=H)
    attention = model.double().encoder[0].attention
    for weight in attention.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    x = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    allowed = torch.ones(N, N, dtype=torch.bool)
    allowed = allowed.tril() if causal else allowed & (torch.arange(N) < N - 2)
    mask = torch.zeros(N, N, dtype=torch.float64).masked_fill(~allowed, -math.inf)
    y_bar = torch.randn(N, D, dtype=torch.float64)
    y = attention(x[None], ~allowed[None, None], None)[0]
    (y * y_bar).sum().backward()

    # The page's weights are d × d_h, for x W; torch's are transposed, for x Wᵀ.
    project, out = attention.project, attention.out
    of_parts = [part.T for part in project.weight.detach().split(D)]
    wq, wk, wv = ([w[:, a * WIDTH : (a + 1) * WIDTH] for a in range(H)] for w in of_parts)
    bq, bk, bv = (list(b.split(WIDTH)) for b in project.bias.detach().split(D))
    wo = list(out.weight.detach().T.split(WIDTH))
    x_ = x.detach()
    gradients: dict[str, list[Tensor]] = {
        name: [] for name in ("q", "k", "v", "o", "bq", "bk", "bv")
    }
    x_bar = torch.zeros_like(x_)
    total = out.bias.detach().expand(N, D).clone()
    for a in range(H):
        q, k, v = x_ @ wq[a] + bq[a], x_ @ wk[a] + bk[a], x_ @ wv[a] + bv[a]
        weights = softmax(q @ k.T / math.sqrt(WIDTH) + mask)
        c = weights @ v
        total += c @ wo[a]
        c_bar = y_bar @ wo[a].T
        a_bar = c_bar @ v.T
        ones = torch.ones(N, 1, dtype=torch.float64)
        s_bar = weights * (a_bar - (weights * a_bar) @ ones @ ones.T)
        assert not s_bar[~allowed].any()
        close(s_bar.sum(1), torch.zeros(N, dtype=torch.float64))
        q_bar, k_bar = s_bar @ k / math.sqrt(WIDTH), s_bar.T @ q / math.sqrt(WIDTH)
        v_bar = weights.T @ c_bar
        gradients["q"].append(x_.T @ q_bar)
        gradients["k"].append(x_.T @ k_bar)
        gradients["v"].append(x_.T @ weights.T @ y_bar @ wo[a].T)
        gradients["o"].append(c.T @ y_bar)
        for name, bar in (("bq", q_bar), ("bk", k_bar), ("bv", v_bar)):
            gradients[name].append(bar.sum(0))
        x_bar += q_bar @ wq[a].T + k_bar @ wk[a].T + v_bar @ wv[a].T
    close(total, y.detach())
    close(torch.cat([*gradients["q"], *gradients["k"], *gradients["v"]], 1).T, project.weight.grad)
    close(torch.cat(gradients["o"]).T, out.weight.grad)
    close(torch.cat([*gradients["bq"], *gradients["bk"], *gradients["bv"]]), project.bias.grad)
    close(x_bar, x.grad)


def test_the_expanded_formulas_hold_without_biases() -> None:
    torch.manual_seed(0)
    x, y_bar = torch.randn(N, D).double(), torch.randn(N, D).double()
    w = {n: torch.randn(D, D).double().requires_grad_() for n in "qkvo"}

    def head(name: str, a: int) -> Tensor:
        return w[name][:, a * WIDTH : (a + 1) * WIDTH]

    def rows(a: int) -> Tensor:
        return w["o"][a * WIDTH : (a + 1) * WIDTH]

    heads = []
    for a in range(H):
        scores = (x @ head("q", a)) @ (x @ head("k", a)).T / math.sqrt(WIDTH)
        heads.append(softmax(scores) @ (x @ head("v", a)))
    ((torch.cat(heads, 1) @ w["o"]) * y_bar).sum().backward()
    with torch.no_grad():
        for a in range(H):
            scores = (x @ head("q", a)) @ (x @ head("k", a)).T / math.sqrt(WIDTH)
            weights = softmax(scores)
            a_bar = y_bar @ rows(a).T @ (x @ head("v", a)).T
            s_bar = weights * (a_bar - (weights * a_bar).sum(1, keepdim=True))
            part = slice(a * WIDTH, (a + 1) * WIDTH)
            root = math.sqrt(WIDTH)
            forms = {
                "q": x.T @ s_bar @ x @ head("k", a) / root,
                "k": x.T @ s_bar.T @ x @ head("q", a) / root,
                "v": x.T @ weights.T @ y_bar @ rows(a).T,
            }
            for name, form in forms.items():
                gradient = w[name].grad
                assert gradient is not None
                close(form, gradient[:, part])
            gradient = w["o"].grad
            assert gradient is not None
            close((weights @ x @ head("v", a)).T @ y_bar, gradient[part])


def test_the_elementwise_formula_is_wrong() -> None:
    s = torch.randn(N, N, dtype=torch.float64, requires_grad=True)
    a_bar = torch.randn(N, N, dtype=torch.float64)
    weights = softmax(s)
    (weights * a_bar).sum().backward()
    elementwise = (a_bar * weights * (1 - weights)).detach()
    assert s.grad is not None
    assert float((elementwise - s.grad).abs().max()) > 1e-2
