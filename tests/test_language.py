"""Plain technical English, where it can be checked mechanically.

Each rule bans a word or phrase that was replaced throughout the project, and names the replacement.
Rules are narrow on purpose: a pattern with false alarms is no use. Each exception has a reason.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
ROOTS = ("zoo", "plugins", "tests", "cards", "benchmarks", "docs")
SUFFIXES = {".py", ".md", ".toml", ".txt", ".yml", ".html", ".css", ".js"}
NOT_PROSE = {
    "tests/test_language.py": "lists the banned words",
    "docs/verified.md": "a transcript; its messages are checked in the code that prints them",
}


@dataclass(frozen=True)
class Rule:
    """A banned pattern with its replacement.

    Args:
        pattern: regular expression, without regard to case; a space matches any white space.
        write: what to write instead.
        where: regular expression of the paths that the rule applies to.
        allowed: paths that may contain the pattern, with the reason.
    """

    pattern: str
    write: str
    where: str = ""
    allowed: dict[str, str] = field(default_factory=dict)


PHRASES = [
    # Sentences from the style table, by their most striking part.
    Rule("whatever a program might read", "commands that print data also accept `--json`"),
    Rule("besides the corpus", "also trained on … (sequence-level distillation)"),
    Rule("papers[_ ]count", "tokenized BLEU"),
    Rule("of the batches is padding", "8.4% padding"),
    Rule("is anywhere in it", "nothing is hard-coded"),
    Rule("no broken one keeps", "a broken plugin never blocks other commands"),
    Rule("how near the updates come", "throughput relative to a large matrix multiplication"),
    Rule("other values being dropped", "different dropout masks"),
    Rule("it looks at most", "the source token with the highest attention weight"),
    Rule("that writes with it", "an ensemble"),
    Rule("no such search", "`--n-best 3` needs a beam of at least 3"),
    # Words and turns of phrase.
    Rule(
        r"\btells?\b",
        "shows, reports, prints, returns whether",
        allowed={"cards/people.py": "an English sentence to translate"},
    ),
    Rule(
        r"\btold\b",
        "reported, recorded, unless set",
        allowed={"cards/more_sentences.py": "an English sentence to translate"},
    ),
    Rule(r"\bnobody\b", "no one; or name what does not happen"),
    Rule(r"\bunwell\b", "server error"),
    Rule(r"\bin the box\b", "built in"),
    Rule(r"\bstranger\b", "external plugin"),
    Rule(r"\bas it comes\b", "default"),
    Rule(r"\bthe same again\b", "the same; equal"),
    Rule(r"\bis to have\b", "has; needs"),
    Rule(
        r"[«»]",
        "“quotation marks” or `code`",
        where="(?!tests/)",
        allowed=dict.fromkeys(
            (
                "cards/more_sentences.py", "cards/symbols.py", "tests/test_symbols.py",
                "benchmarks/everyday.py",
            ),
            "French",
        ),
    ),
    Rule(r"\b(?:tokens|sentences|words|pairs|updates|texts|rows) an? "
         r"(?:second|minute|step|batch|sentence|side|pair|update|epoch)\b",
         "tokens/s, tokens per second, per batch"),
    # Names of the first edition.
    Rule(r"\bclass Past\b|(?-i:\bPast\()", "KeyValueCache"),
    Rule(r"\bclass Kept\b|(?-i:\bKept\()", "CachedWeights"),
    Rule(r"\bnames: Registry\b", "registry: Registry"),
    Rule(r"\bkeep_freed_memory\b", "settings of the process belong to the command line",
         where=r"zoo/(?!cli/)|plugins/"),
    Rule(r"\bhidden\b(?! (?:layer|size|state|unit))",
         "a mask: key_padding_mask, causal_mask; hidden is an RNN's state",
         where=r"zoo/(?:nn|decoding)/.*\.py|plugins/zoo_(?:transformer|convs2s)/.*\.py"),
]  # fmt: skip

NAMES = {
    "ask": "Request",
    "chances": "log_probs",
    "found": "what was found: match, registry, module, result",
    "lane": "worker",
    "lanes": "parallel",
    "ours": "name the thing",
    "place": "position, index, device",
    "places": "positions, indices, devices",
    "refusals": "errors",
    "sign": "character",
    "signs": "characters",
    "told": "recorded, reported, messages",
    "unwell": "server_error",
}
"""Identifiers of the first edition, without regard to case and leading underscores."""
SPELLING = re.compile(r"optimis|initialis|normalis|tokenis|serialis|summaris", re.IGNORECASE)
MODULES = {
    "found", "lanes", "measure", "memory", "normalise", "own", "patience", "places", "prepared",
    "product", "refusals", "segments", "settle", "text", "told", "unwell", "walk",
}  # fmt: skip


@cache
def texts() -> dict[str, str]:
    """Return the text files of the project by path."""
    files = [file for root in ROOTS for file in (TOP / root).rglob("*")]
    files += [
        TOP / name
        for name in (
            "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile",
            "registry.toml", "pyproject.toml", "constraints.txt",
        )
    ]  # fmt: skip
    wanted = [
        file
        for file in files
        if file.is_file()
        and (file.suffix in SUFFIXES or file.name == "Makefile")
        and not file.name.endswith((".tokenizer.json", "source-words.txt"))
        and "__pycache__" not in file.parts
    ]
    paths = {file.relative_to(TOP).as_posix(): file for file in sorted(wanted)}
    return {
        path: file.read_text(encoding="utf-8")
        for path, file in paths.items()
        if path not in NOT_PROSE
    }


def matches(rule: Rule) -> Iterator[str]:
    """Yield each match as `path:line: text`."""
    pattern = re.compile(rule.pattern.replace(" ", r"[\s#]+"), re.IGNORECASE)
    for path, text in texts().items():
        if path in rule.allowed or not re.match(rule.where, path):
            continue
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: {text.splitlines()[line - 1].strip()[:100]}"


@pytest.mark.parametrize("rule", PHRASES, ids=lambda rule: rule.pattern)
def test_replaced_phrases_do_not_return(rule: Rule) -> None:
    lines = list(matches(rule))
    assert not lines, f"write: {rule.write}\n" + "\n".join(lines)


@cache
def identifiers() -> dict[str, list[str]]:
    """Return every name in the Python files, each with its occurrences as `path:line`."""
    lines = defaultdict(list)
    for path, text in texts().items():
        if path.endswith(".py"):
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.NAME:
                    lines[token.string].append(f"{path}:{token.start[0]}")
    return lines


@pytest.mark.parametrize("name", NAMES)
def test_replaced_names_do_not_return(name: str) -> None:
    lines = [
        f"{line}: {identifier}"
        for identifier, lines in identifiers().items()
        if identifier.lower().lstrip("_") == name
        for line in lines
    ]
    assert not lines, f"write: {NAMES[name]}\n" + "\n".join(lines)


def test_identifiers_have_american_spelling() -> None:
    """As in torch: `optimizer`, `normalize`."""
    names = {name: lines for name, lines in identifiers().items() if SPELLING.search(name)}
    assert not names


def test_modules_have_the_field_s_names() -> None:
    stems = {path: Path(path).stem for path in texts() if path.startswith(("zoo/", "plugins/"))}
    assert not [path for path, stem in stems.items() if stem in MODULES]


def test_every_exception_is_needed() -> None:
    for rule in PHRASES:
        for path in rule.allowed:
            text = texts()[path]
            assert re.search(rule.pattern, text, re.IGNORECASE), f"{path} does not need {rule}"
