"""The public homes of the real corpora, with the digests of the files that are read.

Those of Multi30k and of the CMU Pronouncing Dictionary come from one commit of a repository each.
Those of Tatoeba come from an archive that is published anew from time to time: another edition is
refused by its digest, and no edition with the digests below is known to be public still.
"""

from zoo import Download

MULTI30K = (
    "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a"
    "/data/task1/raw"
)
MULTI30K_FILES = (
    (
        "train.en",
        568_929,
        1_801_238,
        "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    ),
    (
        "train.de",
        637_044,
        2_110_398,
        "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    ),
    (
        "train.fr",
        604_242,
        2_111_303,
        "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    ),
    ("val.en", 21_650, 63_297, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
    ("val.de", 24_681, 75_981, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
    ("val.fr", 23_001, 73_924, "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc"),
    (
        "test_2016_flickr.en",
        21_077,
        62_076,
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    ),
    (
        "test_2016_flickr.de",
        22_890,
        70_649,
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    ),
    (
        "test_2016_flickr.fr",
        22_310,
        72_261,
        "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    ),
)
"""Name, bytes to download, bytes of the text, and the text's SHA-256."""

TATOEBA = (
    Download(
        "tatoeba-en-fr/fra.txt",
        "https://www.manythings.org/anki/fra-eng.zip",
        0,
        "d952b56a181da5270b7bb4ded3f3bbe61e67a9b1de0e0fbc1d46438c71fb55a7",
        562_864,
        member="fra.txt",
        lines=5_000,
    ),
)

TATOEBA_76K = (
    Download(
        "tatoeba-en-fr-76k/fra.txt",
        "https://www.manythings.org/anki/fra-eng.zip",
        0,
        "0054ea2102484f4800d0b2cca57460b6b4a2e05328e6954240601065b001b1a6",
        3_996_938,
        member="fra.txt",
        lines=76_037,
    ),
)
CMUDICT = (
    Download(
        "cmudict/cmudict.dict",
        "https://raw.githubusercontent.com/cmusphinx/cmudict/0f8072f814306c5ee4fbf992ed853601b12c01f9"
        "/cmudict.dict",
        3_618_488,
        "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22",
        3_618_488,
    ),
)


def multi30k_downloads(source: str, target: str) -> tuple[Download, ...]:
    """Return the files of Multi30k in two languages."""
    return tuple(
        Download(f"multi30k/{name}", f"{MULTI30K}/{name}.gz", size, digest, text_size)
        for name, size, text_size, digest in MULTI30K_FILES
        if name.endswith((f".{source}", f".{target}"))
    )
