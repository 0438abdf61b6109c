"""A network with losses of its own: a CTC head on the encoder, and the balance of its experts.

Each key k of `pooled` becomes k + Σ_e g_e tanh(W_e k), with the gate g = softmax(W_g k). Training adds

    λ_c · −log p_CTC(y | keys)          per sentence (Kim et al. 2017, equation 1)
    λ_b · Var(G) / mean(G)², G = Σ_keys g   per target token (Shazeer et al. 2017, equation 7)

to the cross-entropy. The CTC head is not used in decoding.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import ctc_loss
from zoo.nn import END, PADDING, Encoded, Output

from zoo_networks.configs import ExpertsConfig
from zoo_networks.pooled import Memory, Pooled


class Experts(Pooled):
    """`Pooled` with experts and losses of its own."""

    def __init__(self, config: ExpertsConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.config = config
        self.gate = nn.Linear(config.dim, config.experts, bias=False)
        self.expert = nn.Linear(config.dim, config.experts * config.dim, bias=False)
        self.spell = nn.Linear(config.dim, target_vocab)

    def route(self, memory: Memory) -> tuple[Memory, Tensor]:
        """Return the memory after the experts, and their gates, (sentences, keys, experts)."""
        gates = self.gate(memory.keys).softmax(-1)
        outputs = self.expert(memory.keys).unflatten(2, (gates.shape[2], -1)).tanh()
        keys = memory.keys + (gates[..., None] * outputs).sum(2)
        return memory._replace(keys=keys), gates

    def encode(
        self, source: Tensor, source_mask: Tensor, attention: bool = False
    ) -> Encoded[Memory]:
        """Read the sources, and let the experts change the keys."""
        return Encoded(self.route(super().encode(source, source_mask).memory)[0])

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, attention: bool = False
    ) -> Output:
        """Return the logits of all positions at once, and in training the losses."""
        memory, gates = self.route(super().encode(source, source_mask).memory)
        output = self.decode(memory, target, attention)
        if not self.training:
            return output
        tokens = (target != PADDING).sum()
        losses = {
            "ctc": self.config.ctc * self.ctc(memory, target),
            "balance": self.config.balance * tokens * imbalance(gates, memory.mask),
        }
        return output._replace(losses=losses)

    def ctc(self, memory: Memory, target: Tensor) -> Tensor:
        """Return −log p(y) of the words of the targets, summed; blank is the padding token."""
        scores = self.spell(memory.keys).transpose(0, 1)
        log_probs = scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(-1)
        lengths, words = memory.mask.sum(1), (target > END).sum(1)
        return ctc_loss(
            log_probs, target[:, 1:], lengths, words, PADDING, "sum", zero_infinity=True
        )


def imbalance(gates: Tensor, mask: Tensor) -> Tensor:
    """Return the squared coefficient of variation of the experts' use; 0 if all are used alike."""
    use = (gates * mask[..., None]).sum((0, 1))
    return use.var(correction=0) / use.mean() ** 2
