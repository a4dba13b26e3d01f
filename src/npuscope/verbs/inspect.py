"""`npuscope inspect FILE_OR_FOLDER`: what it is and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.errors import UsageError
from npuscope.options.kinds import Argument, OptionGroup, Verb, file
from npuscope.options.rows import OUTPUT
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.report.inspect import Inspection

# fmt: off
VERB = Verb(
    "tell what a file or folder is and what is in it",
    (Argument("source", "FILE_OR_FOLDER", "any file or folder of the tools"),),
    (
        OptionGroup("runtime-loadable images", (
            file("compare", "what differs from another image"),
            file("firmware_map", "does the image load on this firmware: a TOML or JSON file, "
                "or `stm32n6570-dk`"),
        )),
        OUTPUT,
    ),
    text="npuscope.report.inspect:inspection_text",
    json="npuscope.report.inspect:inspection_json",
    reads=("source", "compare", "firmware_map"),
)
# fmt: on


@checked(VERB)
def inspect(
    source: str | Path,
    *,
    compare: str | Path | None = None,
    firmware_map: str | Path | None = None,
) -> Inspection:
    """Tell what a file or folder is, by its content, and what is in it.

    In: any file or folder of the tools; for a runtime-loadable image also another image to
    `compare` it with, or the `firmware_map` that it has to load on. Out: kind, version, counts.

    >>> npuscope.inspect("st_ai_output/network_c_info.json").kind
    """
    from npuscope.identify.path import identify
    from npuscope.report.inspect import Inspection

    facts = identify(source)
    if facts.kind != "loadable":
        for option, value in (("compare", compare), ("firmware-map", firmware_map)):
            if value is not None:
                raise UsageError(
                    f"{safe_terminal(str(source))} is not a runtime-loadable image",
                    where=f"--{option}",
                    hint="give a NAME_rel.bin as `npuscope package` writes it",
                )
        return Inspection(facts)
    from npuscope.loadable.compare import compare_images
    from npuscope.loadable.firmware_map import load_firmware_map
    from npuscope.loadable.fitting import fit
    from npuscope.loadable.image import read_image_file

    image = read_image_file(str(source))
    fitting = None if firmware_map is None else fit(image, load_firmware_map(str(firmware_map)))
    other = None if compare is None else read_image_file(str(compare))
    differences = None if other is None else compare_images(image, other)
    return Inspection(facts, image, differences, fitting)
