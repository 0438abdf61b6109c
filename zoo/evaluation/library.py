"""sacreBLEU, which is part of the extra `train`."""

from zoo.registry.imports import require

require("sacrebleu", extra="train", purpose="scores")

from sacrebleu.metrics.base import Metric as Metric  # noqa: E402  # after the check
from sacrebleu.metrics.base import Score as Score  # noqa: E402
from sacrebleu.metrics.base import Signature as Signature  # noqa: E402
from sacrebleu.metrics.bleu import BLEU as BLEU  # noqa: E402
from sacrebleu.metrics.chrf import CHRF as CHRF  # noqa: E402
from sacrebleu.metrics.chrf import CHRFScore as CHRFScore  # noqa: E402
from sacrebleu.metrics.ter import TER as TER  # noqa: E402
from sacrebleu.metrics.ter import TERScore as TERScore  # noqa: E402
from sacrebleu.significance import PairedTest as PairedTest  # noqa: E402
from sacrebleu.significance import Result as Result  # noqa: E402
