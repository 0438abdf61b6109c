"""Colors of code, each with a contrast of at least 4.5 against its background."""

from pygments.style import Style
from pygments.token import Comment, Error, Generic, Keyword, Name, Number, Operator, String, Token


class Light(Style):  # type: ignore[misc]  # Pygments carries no types
    """Dark colors on a light background."""

    background_color = "#f3f5f4"
    styles = {  # noqa: RUF012 - as Pygments declares it
        Token: "#1c2b2a",
        Comment: "italic #5b6866",
        Keyword: "bold #0b5d57",
        Operator: "#3d4b49",
        Name.Function: "#1f4e9c",
        Name.Class: "bold #1f4e9c",
        Name.Decorator: "#7a3b8f",
        Name.Builtin: "#0b5d57",
        Name.Tag: "#0b5d57",
        Name.Attribute: "#1f4e9c",
        String: "#8a4100",
        Number: "#8a4100",
        Generic.Prompt: "bold #0b5d57",
        Generic.Output: "#3d4b49",
        Generic.Heading: "bold",
        Error: "",
    }


class Dark(Style):  # type: ignore[misc]  # Pygments carries no types
    """Light colors on a dark background."""

    background_color = "#1b2625"
    styles = {  # noqa: RUF012 - as Pygments declares it
        Token: "#dfe8e6",
        Comment: "italic #9aaba8",
        Keyword: "bold #6fd3c7",
        Operator: "#b9c7c4",
        Name.Function: "#8fbcff",
        Name.Class: "bold #8fbcff",
        Name.Decorator: "#d7a4ea",
        Name.Builtin: "#6fd3c7",
        Name.Tag: "#6fd3c7",
        Name.Attribute: "#8fbcff",
        String: "#f0b27a",
        Number: "#f0b27a",
        Generic.Prompt: "bold #6fd3c7",
        Generic.Output: "#c3d0cd",
        Generic.Heading: "bold",
        Error: "",
    }
