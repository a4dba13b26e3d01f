"""A Program straight to an image, without a build folder of the user's."""

from __future__ import annotations

import tempfile
from pathlib import Path

from npuscope.errors import TargetError
from npuscope.loadable.build import Package, package
from npuscope.loadable.options import PackageOptions
from npuscope.loadable.pack_pools import RELOCATABLE_HINT
from npuscope.machine.model import Machine
from npuscope.program.code_files import code_files
from npuscope.program.images import pool_images
from npuscope.program.model import Program
from npuscope.program.serialize import save
from npuscope.whole_file import work_folder

_NAME = "network"


def package_program(program: Program, machine: Machine, options: PackageOptions) -> Package:
    """The image of a program that was compiled with relative external pools."""
    notes, files = code_files(program, machine, _NAME)
    if not files:
        raise TargetError(notes[0], hint=f"nothing to package: {RELOCATABLE_HINT}")
    with work_folder(Path(tempfile.gettempdir())) as folder:
        save(program, folder)
        for file, content in (files | pool_images(program)).items():
            data = content.encode() if isinstance(content, str) else content
            (folder / file).write_bytes(data)
        return package(folder, options)
