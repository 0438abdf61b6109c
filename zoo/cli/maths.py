"""Formulas of Markdown as plain text for a terminal: Greek letters, indices and fractions.

What has no character of its own is written in parentheses, such as `x_(p,2i)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε",
    "eta": "η", "theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "phi": "φ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ",
    "Sigma": "Σ", "Phi": "Φ", "Omega": "Ω", "sum": "∑", "prod": "∏", "top": "ᵀ", "odot": "⊙",
    "otimes": "⊗", "oplus": "⊕", "ast": "∗", "cdot": "·", "times": "×", "pm": "±", "le": "≤",
    "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "in": "∈", "mid": "|",
    "leftarrow": "←", "rightarrow": "→", "to": "→", "mapsto": "↦", "infty": "∞", "partial": "∂",
    "nabla": "∇", "dots": "…", "ldots": "…", "cdots": "⋯", "lfloor": "⌊", "rfloor": "⌋",
    "lceil": "⌈", "rceil": "⌉", "lVert": "‖", "rVert": "‖", "langle": "⟨", "rangle": "⟩",
    "quad": "   ", "qquad": "      ", ",": "", ";": " ", ":": " ", "!": "", " ": " ", "\\": "\n",
    "{": "{", "}": "}", "|": "‖", "%": "%", "_": "_", "ell": "ℓ",
}  # fmt: skip
DROPPED = {"left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "bigg", "displaystyle"}
NAMES = {"operatorname", "mathrm", "mathbf", "mathit", "text", "texttt", "textbf", "mathbb"}
FRACTIONS = {"frac", "tfrac", "dfrac"}
ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304", "overline": "\u0304",
           "dot": "\u0307", "vec": "\u20d7"}  # fmt: skip
ABOVE = str.maketrans("0123456789+-−=()niTtlkjxᵀ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱᵀᵗˡᵏʲˣᵀ")
BELOW = str.maketrans(
    "0123456789+-−=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ"
)
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$`])\$([^$\n]+(?:\n[^$\n]+)?)\$", re.DOTALL)


def readable(markdown: str) -> str:
    """Return Markdown with its formulas as plain text; displayed ones become indented blocks.

    One that is nested too deeply, as in a card that was pulled, stays as it is.
    """

    def replace(match: re.Match[str]) -> str:
        try:
            return as_markdown(match)
        except RecursionError:
            return match[0]

    def as_markdown(match: re.Match[str]) -> str:
        if match[1] is None:
            return re.sub(r"([*_`\[\]])", r"\\\1", plain(match[2]))
        lines = (re.sub(" {2,}", _gap, line).strip() for line in plain(match[1]).split("\n"))
        return "```text\n" + "\n".join(line for line in lines if line) + "\n```"

    # Code is left alone: every second part of the text is one.
    parts = re.split(r"(```.*?```|`[^`\n]+`)", markdown, flags=re.DOTALL)
    return "".join(p if i % 2 else FORMULA.sub(replace, p) for i, p in enumerate(parts))


def plain(formula: str) -> str:
    """Return a formula in TeX as plain text; a break `\\\\` is a line break."""
    text = re.sub(r"\\(begin|end)\{\w+\*?\}", "", formula)
    return _Reader(text.replace("\n", " ").replace("&", "")).rest()


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def rest(self) -> str:
        """Return everything up to the end, or to the brace that closes a group."""
        written = []
        while self.at < len(self.text) and self.text[self.at] != "}":
            written.append(self.one())
        self.at += 1
        return "".join(written)

    def one(self) -> str:
        """Return the next character, command, group or index."""
        character = self.text[self.at]
        self.at += 1
        if character == "{":
            return self.rest()
        if character == "\\":
            return self._command()
        if character == "^":
            return _index(self._argument(), ABOVE, "^")
        if character == "_":
            return _index(self._argument(), BELOW, "_")
        return "−" if character == "-" else character

    def _argument(self) -> str:
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1
        return self.one() if self.at < len(self.text) else ""

    def _command(self) -> str:
        match = re.compile(r"[A-Za-z]+|.").match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        name = match[0]
        if name in SYMBOLS:
            return SYMBOLS[name]
        if name in DROPPED:
            return ""
        if name in NAMES:
            return self._argument().replace("−", "-")
        if name in FRACTIONS:
            return f"{_grouped(self._argument())}/{_grouped(self._argument())}"
        if name == "sqrt":
            return f"√{_grouped(self._argument())}"
        if name in ACCENTS:
            return self._argument() + ACCENTS[name]
        # A function, such as sin.
        return f"{name} " if self.text[self.at : self.at + 1].isalnum() else name


def _grouped(text: str) -> str:
    """Return the text, in parentheses unless it is one word."""
    text = text.strip()
    return text if re.fullmatch(r"[\w.…ᵀ]+", text) else f"({text})"


def _index(text: str, characters: Mapping[int, int | str | None], mark: str) -> str:
    """Return a text above or below the line."""
    text = text.strip()
    if text and all(ord(c) in characters for c in text):
        return text.translate(characters)
    inside = len(text) == 1 or re.fullmatch(r"\([^()]*\)", text)
    return f"{mark}{text}" if inside else f"{mark}({text})"


def _gap(spaces: re.Match[str]) -> str:
    """Return a wide space for a wide one, else one space."""
    return "    " if len(spaces[0]) > 3 else " "
