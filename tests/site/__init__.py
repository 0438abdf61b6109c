"""The documentation site: its build, its notebooks, and its pages in a browser."""
