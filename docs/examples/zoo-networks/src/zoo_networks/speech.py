"""Feature vectors as a source: frames of speech, or columns of an image.

The network is `pooled`, whose source embedding is a linear map of each vector. What the contract calls
`source_vocab` is the number of features.
"""

from torch import nn

from zoo_networks.configs import SpeechConfig
from zoo_networks.pooled import Pooled


class Speech(Pooled):
    """`Pooled` for sources of (sentences, frames, features)."""

    def __init__(self, config: SpeechConfig, source_vocab: int, target_vocab: int) -> None:
        super().__init__(config, source_vocab, target_vocab)
        self.source_embedding = nn.Linear(source_vocab, config.dim)
