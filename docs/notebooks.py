"""Run the notebooks of the site and store what their cells print: `make notebooks`.

Cells run in this process, in an empty folder. Outputs are the printed text, and the last value as
text or HTML.
"""

import ast
import contextlib
import io
import json
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"


def outputs(source: str, module: types.ModuleType) -> list[dict[str, Any]]:
    """Run a cell in a module and return its outputs as a notebook stores them."""
    tree, values = ast.parse(source), list[Any]()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, before = io.StringIO(), sys.displayhook
    sys.displayhook = lambda value: values.append(value) if value is not None else None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, module.__name__, "exec"), module.__dict__)
            if last is not None:
                exec(compile(ast.Interactive([last]), module.__name__, "single"), module.__dict__)
    finally:
        sys.displayhook = before
    made: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        made.append({"name": "stdout", "output_type": "stream", "text": text})
    for value in values:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data = {"text/plain": [f"<{type(value).__name__}>"], "text/html": [value._repr_html_()]}
        made.append({"data": data, "execution_count": None, "metadata": {},
                     "output_type": "execute_result"})  # fmt: skip
    return made


def run(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """Run all cells in the current folder and return the notebook with their outputs."""
    module = types.ModuleType(name)
    cells = [
        {**cell, "outputs": outputs("".join(cell["source"]), module)}
        if cell["cell_type"] == "code"
        else cell
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.ipynb")):
        notebook = json.loads(file.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
            done = run(notebook, file.stem)
        text = json.dumps(done, indent=1, ensure_ascii=False) + "\n"
        file.write_text(text, encoding="utf-8")
        print(file.name)
