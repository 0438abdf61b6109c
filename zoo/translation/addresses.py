"""Addresses of mail and the web, names online and of files, and names with &, + or #."""

from __future__ import annotations

import re

_ENDINGS = """
ai app au biz br ca ch cn co com cz de dev dk edu eu fi fr gov gr hu ie info int io jp kr mil
mobi mx net nl nz org pl pt ro ru tr tv ua uk
7z apk bat bmp bz2 cfg cpp css csv dmg doc docx epub exe gif gz html ico ini ipynb iso jar jpeg jpg
js json log md mkv mov mp3 mp4 odt ods pdf php png ppt pptx py rar sh sql svg tar tex toml ts tsv
txt wav webp xls xlsx xml xz yaml yml zip
"""
"""The ends of the names of hosts and files, without most that are words."""

HOSTS = ("Com", "Edu", "Gov", "Net", "Org")
"""Ends of the names of hosts that are also written with a capital, as in GitHub.Com."""

_ENDS = "|".join([*_ENDINGS.split(), *_ENDINGS.upper().split(), *HOSTS])
ADDRESS = re.compile(
    rf"""
    (?<![\w.@\#&+/-]) (?:
        (?: https?:// | ftp:// | www\. ) [^\s<>"\u00ab\u00bb\u201c\u201d]{{1,500}}
      | [\w.+-]{{1,64}} @ [\w-]{{1,64}} (?: \. [\w-]{{1,64}} ){{1,8}}
      | [@\#] [^\W\d] \w{{1,64}}
      | ` [^`\s] (?: [^`\n]{{0,200}} [^`\s] )? `
      | (?: [0-9A-F]{{2}} [:-] ){{5}} [0-9A-F]{{2}} (?! [\w:-] )
      | (?= [0-9A-F:]{{0,40}}? (?: :: | [A-F] ) )
        (?: [0-9A-F]{{0,4}} : ){{2,7}} [0-9A-F]{{1,4}} (?! [\w:] )
      | [\w-]{{1,64}} (?: \. [\w-]{{1,64}} ){{0,8}} \. (?-i: {_ENDS} ) \b
        (?! [@-] | \.\w ) (?: [/?] [^\s<>"\u00ab\u00bb\u201c\u201d]{{0,500}} )?
      | [\w-]{{1,64}} (?: \. [\w-]{{1,64}} ){{0,8}} \. (?-i: [a-z]{{2,8}} )
        / [\w~] [^\s<>"\u00ab\u00bb\u201c\u201d]{{0,500}}
      | (?-i: [A-Z][A-Za-z0-9]{{0,9}} (?: & [A-Z][A-Za-z0-9]{{0,9}} | [+\#]{{1,2}} ) )
        (?! [\w+&\#] )
      | (?-i: (?= [A-Z]{{0,20}} [0-9] ) (?= [0-9]{{0,20}} [A-Z] ) [A-Z0-9]{{4,20}} \b )
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)

END_OF_ADDRESS = re.compile(r"[.,;:!?…\]}'’]+$")
"""What follows an address rather than ends it."""


def without_end(address: str) -> str:
    """Return an address without the marks of a sentence, and closing brackets of its own only."""
    before = ""
    while before != address:
        before, address = address, END_OF_ADDRESS.sub("", address)
        if address.endswith(")") and address.count(")") > address.count("("):
            address = address[:-1]
    return address
