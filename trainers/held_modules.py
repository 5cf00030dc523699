"""Our packages in a job's interpreter, whose environment need not contain us.

Exactly two become importable, ``supervisor`` (for ``supervisor.wire``) and ``trainers``,
without the directory they lie in on ``sys.path``: what else lies there is none of the
script's business. ``launch`` imports this file by its own name, from beside itself.

Some of our modules are imported late, when the script imports its framework. They are
those of now even then: an upgrade may replace the files under a script that still loads
its data, and modules of two versions do not go together.
"""

import sys

# A module of ours must never shadow one of the standard library or of the script. By
# ``launch`` our directory is first, and by Python, unless it was told not to.
if __name__ == "held_modules":
    sys.path.remove(__file__.rpartition("/")[0])
    if __file__.rpartition("/")[0] in sys.path:
        sys.path.remove(__file__.rpartition("/")[0])

import importlib.util
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
"""The directory that holds our packages."""

PACKAGES = ("supervisor", "trainers")

IMPORTED = ("trainers", "supervisor/wire")
"""What a training process may import of it: less than 2 MB, read in some milliseconds."""


class HeldModules(MetaPathFinder):
    """Modules as their files are now, whatever becomes of these."""

    def __init__(self, root: Path) -> None:
        """Read them. Raises OSError."""
        files = [path for part in IMPORTED for path in (root / part).rglob("*.py")]
        self.times = {str(path): path.stat().st_mtime for path in files}
        caches = [Path(importlib.util.cache_from_source(str(path))) for path in files]
        there = [path for path in (*files, *caches) if path.exists()]
        self.contents = {str(path): path.read_bytes() for path in there}

    def find_spec(  # type: ignore[explicit-override]  # typing has it from 3.12 on
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """By the directory, not by the name: a script may have packages of our names."""
        del target
        for directory in path or ():
            place = f"{directory}/{fullname.rpartition('.')[2]}"
            for file in (f"{place}/__init__.py", f"{place}.py"):
                if file in self.times:
                    loader = HeldLoader(fullname, file, self)
                    return importlib.util.spec_from_file_location(
                        fullname, file, loader=loader
                    )
        return None


class HeldLoader(SourceFileLoader):
    """One of them."""

    def __init__(self, fullname: str, path: str, held: HeldModules) -> None:
        """The module in the file ``path``."""
        super().__init__(fullname, path)
        self._held = held

    def path_stats(self, path: str) -> dict[str, Any]:  # type: ignore[explicit-override]
        """Of the source, for the compiled one."""
        held = self._held
        return {"mtime": held.times[path], "size": len(held.contents[path])}

    def get_data(self, path: str) -> bytes:  # type: ignore[explicit-override]
        """Source, or what was compiled of it. Raises OSError."""
        if path not in self._held.contents:
            raise FileNotFoundError(path)
        return self._held.contents[path]

    def set_data(  # type: ignore[explicit-override]
        self, path: str, data: Any, *, _mode: int = 0o666
    ) -> None:
        """Keep what was compiled, unless that would leave directories of a package
        that is gone."""
        if Path(self.path).exists():
            super().set_data(path, data, _mode=_mode)


def expose(root: Path) -> None:
    """Make the packages below ``root`` importable by name, and nothing else there."""
    sys.meta_path.insert(0, HeldModules(root))
    for name in PACKAGES:
        directory = root / name
        spec = importlib.util.spec_from_file_location(
            name,
            directory / "__init__.py",
            submodule_search_locations=[str(directory)],
        )
        if spec is None or spec.loader is None:
            message = f"no package {name} in {root}"
            raise ImportError(message)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)


class ScriptLaunch:
    """One script, from what the command line names to its exit code."""

    def __init__(self) -> None:
        self._process: Any = None
        """The ``TrainingProcess``, once there is one."""

    def begun(self) -> tuple[CodeType, dict[str, Any]]:
        """The script's code, and the variables to run it in.

        Raises SystemExit: there is none, it is refused, or versions were asked for.
        """
        sys.modules.pop("held_modules", None)  # a script may have one of that name
        arguments = sys.argv[1:]
        asked = arguments == ["--versions"]
        if sys.version_info < (3, 11):  # noqa: UP036  # the job's interpreter, not ours
            sentence = "training needs Python 3.11 or newer"
            if asked:
                sys.stdout.write(f'{{"refused": "{sentence}"}}')
                raise SystemExit
            sys.stderr.write(f"trainwarden: {sentence}\n")
            raise SystemExit(78)
        expose(ROOT)
        if asked:
            from trainers.process.environment import framework_versions  # noqa: PLC0415  # as below

            raise SystemExit(framework_versions.main())
        from trainers.process import training_process  # noqa: PLC0415  # importable only from here on

        if arguments[:1] == ["--standby"]:
            from trainers.process.standby import waiting_process  # noqa: PLC0415  # as above

            arguments = waiting_process.wait(*arguments[1:])
        self._process = training_process.prepare(arguments)
        begun: tuple[CodeType, dict[str, Any]] = self._process.begin()
        return begun

    def failed(self, error: BaseException) -> int:
        """The exit code after what ``begun`` or the script raised."""
        if self._process is None:
            raise error
        code: int = self._process.failed(error)
        return code

    def over(self) -> int:
        """The exit code after the script's end."""
        code: int = self._process.over()
        return code
