"""Where the lessons are published: the one file that badges and the install cell are made from.

`notebooks/published.json` is written by `rlkit lessons badges --repo OWNER/NAME --ref TAG` and by
nothing else. Without it no badge is shown, and the install cell says plainly that it does not
know where to get rlkit. A tag is asked for, not a branch: Binder builds a new image for every
commit of a branch, and a notebook should install the version that it was written for.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from rlkit.errors import UserError

_REPO = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?/[A-Za-z0-9._-]+")
_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


@dataclass(frozen=True)
class Published:
    """A repository on GitHub and the tag that is linked.

    >>> place = Published("somebody/kit", "v1.0")
    >>> place.install_source
    'git+https://github.com/somebody/kit@v1.0'

    Raises:
        UserError: `repo` is not OWNER/NAME, or `ref` is no name of a tag.
    """

    repo: str
    ref: str

    def __post_init__(self) -> None:
        if not _REPO.fullmatch(self.repo):
            raise UserError(f"--repo must be OWNER/NAME, not {self.repo!r}")
        if not _REF.fullmatch(self.ref) or ".." in self.ref:
            raise UserError(f"--ref must be a tag such as v1.0, not {self.ref!r}")

    @property
    def install_source(self) -> str:
        """What pip installs from."""
        return f"git+https://github.com/{self.repo}@{self.ref}"

    def badges(self, name: str) -> str:
        """The line of badges for one lesson, as Markdown: each an image with words, and a link."""
        file = f"notebooks/{name}.ipynb"
        colab = f"https://colab.research.google.com/github/{self.repo}/blob/{self.ref}/{file}"
        binder = f"https://mybinder.org/v2/gh/{self.repo}/{self.ref}?urlpath=lab/tree/{file}"
        return (
            "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
            f"({colab})\n[![Open in Binder](https://mybinder.org/badge_logo.svg)]({binder})"
        )


def read_published(root: Path) -> Published | None:
    """The stamp of this clone; `None` while there is none.

    Raises:
        UserError: the file is there and cannot be read.
    """
    path = root / "notebooks" / "published.json"
    if not path.exists():
        return None
    try:
        return Published(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise UserError(
            "notebooks/published.json does not hold a repo and a ref; write it again by "
            "`rlkit lessons badges --repo OWNER/NAME --ref TAG`"
        ) from error


def write_published(root: Path, published: Published | None) -> None:
    """Stamps this clone, or takes the stamp away (`None`). The lessons are to be built after it."""
    path = root / "notebooks" / "published.json"
    if published is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(json.dumps(asdict(published)) + "\n", encoding="utf-8")
