"""Foreign formats: importers read another project's checkpoint, exporters write one.

What plugin authors need is exported here; the importers and exporters themselves live with the
architecture whose weights they know.
"""

from zoo.checkpoint.about import LIST_LIMIT as LIST_LIMIT
from zoo.checkpoint.about import About as About
from zoo.checkpoint.checkpoint import Checkpoint as Checkpoint
from zoo.checkpoint.checkpoint import in_dtype as in_dtype
from zoo.checkpoint.checkpoint import write_tokenizers as write_tokenizers
from zoo.checkpoint.tensors import write_tensors as write_tensors
from zoo.data.foreign_engines import SentencePiece as SentencePiece
from zoo.data.foreign_engines import TokenizersPipeline as TokenizersPipeline
from zoo.data.foreign_engines import Vocabulary as Vocabulary
from zoo.data.foreign_tokenizer import ForeignTokenizer as ForeignTokenizer
from zoo.data.moses import Moses as Moses
from zoo.data.pieces import piece_names as piece_names
from zoo.data.protobuf import read_fields as read_fields
from zoo.data.words import Words as Words
from zoo.files import whole_file as whole_file
from zoo.files import write_json as write_json
from zoo.interop.ctranslate2_export import CTranslate2Exporter as CTranslate2Exporter
from zoo.interop.ctranslate2_export import weights_of as weights_of
from zoo.interop.export_card import export_card as export_card
from zoo.interop.exporter import Exporter as Exporter
from zoo.interop.fairseq import Fairseq as Fairseq
from zoo.interop.fairseq import FairseqImporter as FairseqImporter
from zoo.interop.fast_tokenizer import write_fast_tokenizer as write_fast_tokenizer
from zoo.interop.framing import GENERIC as GENERIC
from zoo.interop.framing import SAVE_TOKENIZER as SAVE_TOKENIZER
from zoo.interop.framing import Frame as Frame
from zoo.interop.framing import checked_frame as checked_frame
from zoo.interop.framing import split_special as split_special
from zoo.interop.framing import stated_frame as stated_frame
from zoo.interop.generation import Generation as Generation
from zoo.interop.generation import recommended_search as recommended_search
from zoo.interop.importer import Imported as Imported
from zoo.interop.importer import Importer as Importer
from zoo.interop.joeynmt import JoeyNMT as JoeyNMT
from zoo.interop.joeynmt import JoeyNMTImporter as JoeyNMTImporter
from zoo.interop.lazy_weights import Weights as Weights
from zoo.interop.lazy_weights import open_weights as open_weights
from zoo.interop.opennmt import OpenNMT as OpenNMT
from zoo.interop.opennmt import OpenNMTImporter as OpenNMTImporter
from zoo.interop.pickles import literal as literal
from zoo.interop.project import Weight as Weight
from zoo.interop.reasons import Reasons as Reasons
from zoo.interop.runner import Runner as Runner
from zoo.interop.runner import Sources as Sources
from zoo.interop.settings import read_yaml as read_yaml
from zoo.interop.source import Source as Source
from zoo.interop.state_dict import StateDict as StateDict
from zoo.interop.state_dict import check_weight as check_weight
from zoo.interop.weights import WEIGHT_FILES as WEIGHT_FILES
from zoo.interop.weights import read_npz as read_npz
from zoo.registry.imports import require as require

__all__ = [
    "GENERIC",
    "LIST_LIMIT",
    "SAVE_TOKENIZER",
    "WEIGHT_FILES",
    "About",
    "CTranslate2Exporter",
    "Checkpoint",
    "Exporter",
    "Fairseq",
    "FairseqImporter",
    "ForeignTokenizer",
    "Frame",
    "Generation",
    "Imported",
    "Importer",
    "JoeyNMT",
    "JoeyNMTImporter",
    "Moses",
    "OpenNMT",
    "OpenNMTImporter",
    "Reasons",
    "Runner",
    "SentencePiece",
    "Source",
    "Sources",
    "StateDict",
    "TokenizersPipeline",
    "Vocabulary",
    "Weight",
    "Weights",
    "Words",
    "check_weight",
    "checked_frame",
    "export_card",
    "in_dtype",
    "literal",
    "open_weights",
    "piece_names",
    "read_fields",
    "read_npz",
    "read_yaml",
    "recommended_search",
    "require",
    "split_special",
    "stated_frame",
    "weights_of",
    "whole_file",
    "write_fast_tokenizer",
    "write_json",
    "write_tensors",
    "write_tokenizers",
]
