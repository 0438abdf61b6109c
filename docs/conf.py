"""Settings of the site, which Sphinx reads: `make docs`. docs/project/site.md has the reasons."""

import gc
import os
import sys
import tomllib
from pathlib import Path

gc.set_threshold(100_000)  # a tenth of the time of a build is the collector's otherwise

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
sys.path.insert(0, str(HERE / "theme"))

project = "The zoo"
author = PROJECT["authors"][0]["name"]
project_copyright = author
version = release = PROJECT["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "markup",
    "mathml",
    "notebook",
    "reference",
    "search_words",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["examples"]

myst_enable_extensions = ["dollarmath", "amsmath", "smartquotes"]
myst_heading_anchors = 4
# Several classes have an attribute `source`; the lists of attributes link none of them.
suppress_warnings = ["myst.xref_ambiguous", "ref.python"]
smartquotes_action = "qDe"

# Docstrings use single backquotes for code, as the rest of the documentation does.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
add_module_names = False
toc_object_entries_show_parents = "hide"

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = "The zoo"
html_static_path = ["theme/static"]
html_favicon = "theme/static/icon.svg"
html_css_files = ["theme.css"]
html_search_scorer = str(HERE / "theme" / "scorer.js")
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_permalinks_icon = "#"
pygments_style = "theme_styles.Light"
pygments_dark_style = "theme_styles.Dark"

# Where the source is: the project's metadata, or the environment of a build.
REPOSITORY = PROJECT.get("urls", {}).get("Repository", "") or os.environ.get("ZOO_REPOSITORY", "")
html_context = {"repository": REPOSITORY}
html_theme_options = {}
if REPOSITORY:
    html_theme_options = {
        "source_view_link": f"{REPOSITORY}/blob/main/docs/{{filename}}",
        "top_of_page_buttons": ["view"],
    }
templates_path = ["theme/templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/repository.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
