"""Languages by name or code: `German`, `de`, `deu` and `deu_Latn` are one language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache

from zoo.errors import DecodingError

# Codes of ISO 639-1 and 639-3, also those of the individual languages that stand for a group, and
# the English name.
_LANGUAGES = """
af afr Afrikaans, am amh Amharic, ar ara arb Arabic, as asm Assamese, ast Asturian,
az aze azj Azerbaijani, ba bak Bashkir, be bel Belarusian, bg bul Bulgarian, bn ben Bengali,
bo bod Tibetan, br bre Breton, bs bos Bosnian, ca cat Catalan, ceb Cebuano, cs ces Czech,
cy cym Welsh, da dan Danish, de deu German, el ell Greek, en eng English, eo epo Esperanto,
es spa Spanish, et est ekk Estonian, eu eus Basque, fa fas pes Persian, ff ful fuv Fulah,
fi fin Finnish, fj fij Fijian, fo fao Faroese, fr fra French, fy fry Frisian, ga gle Irish,
gd gla Gaelic, gl glg Galician, gn grn Guarani, gu guj Gujarati, ha hau Hausa, he heb Hebrew,
hi hin Hindi, hr hrv Croatian, ht hat Haitian, hu hun Hungarian, hy hye Armenian,
id ind Indonesian, ig ibo Igbo, ilo Iloko, is isl Icelandic, it ita Italian, ja jpn Japanese,
jv jav Javanese, ka kat Georgian, kk kaz Kazakh, km khm Khmer, kn kan Kannada, ko kor Korean,
ku kur kmr Kurdish, ky kir Kyrgyz, la lat Latin, lb ltz Luxembourgish, lg lug Ganda,
ln lin Lingala, lo lao Lao, lt lit Lithuanian, lv lav lvs Latvian, mg mlg plt Malagasy,
mi mri Maori, mk mkd Macedonian, ml mal Malayalam, mn mon khk Mongolian, mr mar Marathi,
ms msa zsm Malay, mt mlt Maltese, my mya Burmese, ne nep npi Nepali, nl nld Dutch,
nn nno Nynorsk, no nor nb nob Norwegian, ns nso Sepedi, ny nya Chichewa, oc oci Occitan,
om orm gaz Oromo, or ori ory Odia, pa pan Punjabi, pl pol Polish, ps pus pbt Pashto,
pt por Portuguese, qu que quy Quechua, rn run Rundi, ro ron Romanian, ru rus Russian,
rw kin Kinyarwanda, sa san Sanskrit, sd snd Sindhi, si sin Sinhala, sk slk Slovak,
sl slv Slovenian, sm smo Samoan, sn sna Shona, so som Somali, sq sqi als Albanian,
sr srp Serbian, ss ssw Swati, st sot Sotho, su sun Sundanese, sv swe Swedish,
sw swa swh Swahili, ta tam Tamil, te tel Telugu, tg tgk Tajik, th tha Thai, ti tir Tigrinya,
tk tuk Turkmen, tl tgl Tagalog, tn tsn Tswana, tr tur Turkish, ts tso Tsonga, tt tat Tatar,
ug uig Uyghur, uk ukr Ukrainian, ur urd Urdu, uz uzb uzn Uzbek, vi vie Vietnamese,
wo wol Wolof, xh xho Xhosa, yi yid ydd Yiddish, yo yor Yoruba, yue Cantonese,
zh zho cmn Chinese, zu zul Zulu
"""

# A code, and names in the language itself and in some others, as columns of tables have them.
_OTHER_NAMES = """
ar العربية arabisch arabe árabe arabo, bg български bulgarisch bulgare búlgaro bulgaro,
ca català katalanisch catalán catalano catalão, cs čeština tschechisch tchèque checo ceco tcheco,
da dansk dänisch danois danés danese dinamarquês,
de deutsch allemand alemán tedesco alemão duits немецкий 德语 ドイツ語,
el ελληνικά griechisch grec griego greco grego,
en englisch anglais inglés inglese inglês engels английский 英语 英文 英語,
es español spanisch espagnol spagnolo espanhol spaans испанский, et eesti estnisch estonien,
fa فارسی persisch persan, fi suomi finnisch finnois finlandés finlandese finlandês,
fr français französisch francés francese francês frans французский 法语 フランス語,
gl galego galicisch galicien gallego, he עברית hebräisch hébreu hebreo ebraico hebraico,
hi हिन्दी, hr hrvatski kroatisch croate croata, hu magyar ungarisch hongrois húngaro ungherese,
id indonesisch indonésien indonesio indonesiano, it italiano italienisch italien italiaans,
ja 日本語 japanisch japonais japonés giapponese japonês, ko 한국어 koreanisch coréen coreano,
lt lietuvių litauisch lituanien lituano, lv latviešu lettisch letton letón lettone letão,
nl nederlands niederländisch néerlandais neerlandés olandese holandês,
no norsk bokmål norwegisch norvégien noruego norvegese norueguês,
pl polski polnisch polonais polaco polacco polonês,
pt português portugiesisch portugais portugués portoghese portugees,
ro română rumänisch roumain rumano rumeno romeno,
ru русский russisch russe ruso russo, sk slovenčina slowakisch slovaque eslovaco slovacco,
sl slovenščina slowenisch slovène esloveno sloveno, sr српски srpski serbisch serbe serbio serbo,
sv svenska schwedisch suédois sueco svedese zweeds, th ไทย thailändisch thaï tailandés,
tr türkçe türkisch turc turco, uk українська ukrainisch ukrainien ucraniano ucraino,
vi vietnamesisch vietnamien vietnamita, zh 中文 汉语 chinesisch chinois chino cinese chinês
"""

_OF_VARIANT = r"(?:[A-Z][a-z]{3}(?:[_-](?:[A-Z]{2}|419))?|[A-Z]{2}|419)"
_VARIANT = re.compile(rf"([A-Za-z]{{2,3}})[_-]({_OF_VARIANT})")
"""A code with a script or a country, or both; 419 is Latin America."""

_PAIR = re.compile(rf"([a-z]{{2,3}}(?:[_-]{_OF_VARIANT})?)-([a-z]{{2,3}}(?:[_-]{_OF_VARIANT})?)")
"""Two codes, of which one may have a hyphen, such as zh-CN-en."""

_TAG = re.compile(_VARIANT.pattern, re.IGNORECASE)
"""The same in any case, as users type it; in the head of a column, `no_name` would be one."""


@cache
def _entries() -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return each language's codes and its English name."""
    entries = (entry.split(" ") for entry in " ".join(_LANGUAGES.split()).split(", "))
    return tuple((tuple(codes), name) for *codes, name in entries)


@cache
def _names() -> dict[str, str]:
    """Return the English name of each code."""
    return {code: name for codes, name in _entries() for code in codes}


@cache
def _groups() -> dict[str, frozenset[str]]:
    """Return all codes of a language by each of its codes and by its name, in lower case."""
    return {
        key: frozenset(codes) for codes, name in _entries() for key in (*codes, name.casefold())
    }


def language_name(code: str) -> str:
    """Return a language's English name, with the script or country of its code: Chinese (Hans).

    Where the name is not known, return the code.
    """
    language, *rest = re.split("[_-]", code, maxsplit=1)
    name = _names().get(language.casefold())
    if name is None:
        return code
    return f"{name} ({rest[0]})" if rest else name


def two_letter_code(code: str) -> str:
    """Return the first two-letter code of a language, or its code where there is none."""
    return code if len(code) == 2 else next((c for c in _codes(code) if len(c) == 2), code)


def code_of(name: str) -> str:
    """Return a code of the language that a name in words means; what is no such name stays."""
    is_code = len(name) <= 3 or _TAG.fullmatch(name)
    return name if is_code else two_letter_code(named_language(name)) or name


def short_codes(lists: Iterable[Collection[str]]) -> dict[str, str]:
    """Return the shortest code of each code's language: `en` for `eng_Latn`, where that is enough.

    Codes of one language stay as they are if they have other scripts, such as `zho_Hans` and
    `zho_Hant`, or other countries, or if one of the lists has several of them.
    """
    of_language: dict[str, dict[str, None]] = {}
    several = set()
    for codes in lists:
        languages = {code: _canonical(code) for code in codes}
        several |= {one for one, count in Counter(languages.values()).items() if count > 1}
        for code, language in languages.items():
            of_language.setdefault(language, {})[code] = None
    shortest: dict[str, str] = {}
    for language, codes in of_language.items():
        variants = {_variant(code) for code in codes} - {"", "xx"}  # mBART has `en_XX`
        scripts = {variant for variant in variants if len(variant) == 4}
        short = next((code for code in codes if len(code) == 2), language)
        keep = language in several or len(scripts) > 1 or len(variants - scripts) > 1
        shortest |= {code: code if keep else short for code in codes}
    return shortest


def is_language(text: str) -> bool:
    """Return whether a text is a language's English name or one of its codes, in any case."""
    return text.casefold() in _groups()


def named_language(text: str) -> str:
    """Return a code of the language that a text names, or nothing.

    Beside what `is_language` knows, these are names in other languages, and codes with a script or
    a country: Deutsch, Anglais, eng_Latn, pt-BR.
    """
    variant = _VARIANT.fullmatch(text)
    name = (variant[1] if variant else text).casefold()
    return min(_groups().get(_code_of_other_name().get(name, name), {""}))


@cache
def _code_of_other_name() -> dict[str, str]:
    """Return a code by each of `_OTHER_NAMES`."""
    entries = (entry.split(" ") for entry in " ".join(_OTHER_NAMES.split()).split(", "))
    return {name: code for code, *names in entries for name in names}


def split_pair(text: str) -> tuple[str, ...]:
    """Return the two names that a hyphen separates, which may be codes with hyphens; or nothing."""
    parts = tuple(text.split("-"))
    if len(parts) == 2:
        return parts if all(parts) else ()
    match = _PAIR.fullmatch(text)
    return match.groups() if match else ()


def find_language(given: str, codes: Collection[str]) -> str:
    """Return the code that a user means by a name or a code; `given` itself if none fits.

    Raises:
        DecodingError: several fit.
    """
    if given in codes:
        return given
    fitting = [code for code in codes if code.casefold() == given.casefold()]
    group = _groups().get(given.casefold(), {given.casefold()})
    fitting = fitting or [code for code in codes if _language(code) in group]
    if not fitting:  # Deutsch, pt_BR, DE-de
        tag = _TAG.fullmatch(given)
        group = _groups().get(named_language(tag[1] if tag else given), {""})
        fitting = [
            c for c in codes if _language(c) in group and _fits(_variant(given), _variant(c))
        ]
    if len(fitting) > 1:
        raise DecodingError(
            f"language {given!r} is ambiguous", _listed(fitting), "Name one of these"
        )
    return fitting[0] if fitting else given


def same_language(one: str, other: str) -> bool:
    """Return whether two names or codes are those of one language."""
    first, second = (
        named_language(each) or named_language(_language(each)) or each.casefold()
        for each in (one, other)
    )
    return first == second


def _language(code: str) -> str:
    """Return a code without its script or country."""
    return re.split("[_-]", code)[0].casefold()


def _variant(code: str) -> str:
    """Return the script or country of a code, or nothing."""
    return code[len(_language(code)) + 1 :].casefold()


def _fits(given: str, own: str) -> bool:
    """Return whether a script or country may mean another: not one that differs."""
    anything = ("", "xx")  # mBART has `en_XX`
    if given != own and len(given) > len("Latn"):  # a script and a country
        given = given[:4] if len(own) == len("Latn") else given[5:]
    elif len(own) > len("Latn"):
        own = own[:4] if len(given) == len("Latn") else own[5:]
    return given in (*anything, own) or own in anything or len(given) < len(own) == len("Latn")


def _canonical(code: str) -> str:
    """Return one code for all of a language, of two letters where there is one."""
    codes = _codes(_language(code))
    return next((each for each in codes if len(each) == 2), codes[0])


def _codes(language: str) -> tuple[str, ...]:
    """Return all codes of a language, given one; that one alone where it is not known."""
    return next((codes for codes, _ in _entries() if language in codes), (language,))


def _listed(codes: Sequence[str]) -> str:
    return f"it may be {', '.join(codes[:-1])} or {codes[-1]}"
