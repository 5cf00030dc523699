"""A hook is called when its module was executed, however that was looked for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[5]

BEGIN = """
import importlib, importlib.util, sys
sys.path.insert(1, {root!r})
from trainers.process.hooks import import_hooks as hooks
calls = []
def told(name):
    return lambda module: calls.append((name, module, getattr(module, "END", None)))
hooks.after_import({{name: told(name) for name in ("toy", "toy.part", "other")}})
def said():
    found, calls[:] = [(name, end) for name, _, end in calls], []
    return found
"""
TOY = {
    "toy/__init__.py": "import os, importlib.util\n"
    "importlib.util.find_spec('toy'), importlib.util.find_spec('other')\n"
    "if os.environ.pop('FAIL', None): raise OSError('not now')\n"
    "from toy import part\nEND = 'end of toy'\n",
    "toy/part.py": "import toy\nEND = 'end of part'\n",
    "toy/data.txt": "kept here",
    "other.py": "END = 'end of other'\n",
}
BOTH = [("toy.part", "end of part"), ("toy", "end of toy")]


@pytest.fixture
def python(tmp_path: Path) -> "Python":
    """Runs scripts beside the toy packages."""
    for name, text in TOY.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return Python(tmp_path)


class Python:
    """A process of its own for each script: hooks stay."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, text: str, *, before: str = "") -> None:
        """Raises AssertionError, with what it printed, unless the script ends well."""
        script = self.directory / "train.py"
        script.write_text(before + BEGIN.format(root=str(ROOT)) + text)
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr


def test_to_look_for_a_module_is_not_to_import_it(python: Python) -> None:
    """Any number of ``find_spec``, before and while it is imported, and by pkgutil."""
    python(f"""
import pkgutil
for _ in range(15):
    assert importlib.util.find_spec("toy").name == "toy"
list(pkgutil.iter_modules()), pkgutil.find_loader("other")
assert said() == []
import toy
assert said() == {BOTH}, calls
import toy, toy.part, other
assert said() == [("other", "end of other")]
importlib.util.find_spec("toy.part"), importlib.util.find_spec("toy")
assert said() == []
""")


def test_to_look_for_a_part_imports_the_package(python: Python) -> None:
    """As it does in Python, and so its hook is called; that of the part is not."""
    (python.directory / "toy" / "__init__.py").write_text("END = 'short'\n")
    python("""
assert importlib.util.find_spec("toy.part").origin.endswith("part.py")
assert said() == [("toy", "short")]
import toy.part
assert said() == [("toy.part", "end of part")]
""")


def test_an_import_that_raised_leaves_the_hook(python: Python) -> None:
    """Until one comes to its end; a spec that somebody kept can be used again."""
    python(f"""
import os
os.environ["FAIL"] = "1"
try:
    import toy
except OSError:
    pass
assert said() == []
import toy
assert said() == {BOTH}
del sys.modules["toy"]
os.environ["FAIL"] = "1"
spec = importlib.util.find_spec("toy")
for _ in range(2):
    module = sys.modules["toy"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError:
        assert said() == []
assert said() == [("toy", "end of toy")]
""")


def test_a_spec_is_as_python_makes_it(python: Python) -> None:
    """In all that people look at, the loader's own type, attributes and equality too."""
    python(
        """
import copy, importlib.abc, importlib.machinery, importlib.resources, inspect
spec = importlib.util.find_spec("toy")
assert spec == plain and plain == spec and spec == importlib.util.find_spec("toy")
assert hash(spec.loader) == hash(plain.loader)
assert "SourceFileLoader" in repr(spec)
for name in ("name", "origin", "cached", "parent", "has_location", "loader_state",
             "submodule_search_locations"):
    assert getattr(spec, name) == getattr(plain, name), name
loader = spec.loader
assert isinstance(loader, importlib.machinery.SourceFileLoader)
assert isinstance(loader, importlib.abc.InspectLoader)
assert vars(loader) == vars(plain.loader)
assert loader.path == plain.loader.path and loader.is_package("toy")
assert loader.get_source("toy") == plain.loader.get_source("toy")
assert loader.get_resource_reader("toy").resource_path("data.txt")
assert type(copy.deepcopy(spec).loader) is importlib.machinery.SourceFileLoader
import toy
for one in (toy.__loader__, toy.__spec__.loader):
    assert type(one) is importlib.machinery.SourceFileLoader
assert importlib.resources.files("toy").joinpath("data.txt").read_text() == "kept here"
assert inspect.getsource(toy) == loader.get_source("toy")
""",
        before="import importlib.util\nplain = importlib.util.find_spec('toy')\n",
    )


def test_a_hook_is_called_once_for_each_module(python: Python) -> None:
    """Not again for one that is reloaded; for one that is imported anew it is. A copy
    that nobody else can import is none."""
    python(f"""
import toy
first = calls[-1][1]
assert first is toy and said() == {BOTH}
importlib.reload(toy), importlib.reload(toy.part)
assert said() == []
del sys.modules["toy"], sys.modules["toy.part"]
import toy
assert calls[-1][1] is toy is not first and said() == {BOTH}
spec = importlib.util.find_spec("other")
copy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(copy)
assert copy.END and said() == []
import other
assert said() == [("other", "end of other")]
""")


def test_many_threads_that_import_at_once(python: Python) -> None:
    """They get one module, and its hook is called once."""
    (python.directory / "other.py").write_text(
        "import time\ntime.sleep(0.2)\nEND = 'end of other'\n"
    )
    python("""
import threading
def work():
    for _ in range(20):
        importlib.util.find_spec("toy")
    import other
threads = [threading.Thread(target=work) for _ in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
assert said() == [("other", "end of other")], calls
""")


def test_lazy_modules(python: Python) -> None:
    """The hook is called when the module is really executed, at its first use."""
    python("""
spec = importlib.util.find_spec("other")
spec.loader = importlib.util.LazyLoader(spec.loader)
module = sys.modules["other"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
importlib.util.find_spec("toy")
assert said() == []
assert module.END == "end of other"
assert said() == [("other", "end of other")]
""")


FINDER = """
from importlib.machinery import PathFinder
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in ("other", "toy"):
            return None
        return {answer}
"""
AN_EDITABLE_INSTALL = """
importlib.util.spec_from_file_location("other", {place!r}) if name == "other" else None
"""


def test_a_finder_behind_ours(python: Python) -> None:
    """A package that is installed editable is found by a finder of its own."""
    place = python.directory / "elsewhere" / "other.py"
    place.parent.mkdir()
    (python.directory / "other.py").rename(place)
    answer = AN_EDITABLE_INSTALL.format(place=str(place)).strip()
    python(f"""
{FINDER.format(answer=answer)}
sys.meta_path.append(Finder)
assert importlib.util.find_spec("other").origin == {str(place)!r}
import other
assert said() == [("other", "end of other")]
""")


@pytest.mark.parametrize(
    ("answer", "late"),
    [
        ("PathFinder.find_spec(name, path, target)", False),
        ("importlib.util.spec_from_file_location(name, name + '.py')", True),
    ],
)
def test_a_finder_in_front_of_ours(python: Python, answer: str, *, late: bool) -> None:
    """One that asks Python's own, and one that asks nobody: then the hook is called as
    soon as anything else is imported."""
    python(f"""
import os
os.chdir({str(python.directory)!r})
{FINDER.format(answer=answer)}
sys.meta_path.insert(0, Finder)
import other
if {late}:
    assert said() == []
    import wave
assert said() == [("other", "end of other")]
""")


IMPORT_HOOK = """
class Chained:
    def __init__(self, loader): self.loader = loader
    def __getattr__(self, name): return getattr(self.loader, name)
    def exec_module(self, module):
        self.loader.exec_module(module)
        seen.append(module.__name__)
class Hooking:
    asked = set()
    def find_spec(self, name, path=None, target=None):
        if name in self.asked or name not in ("toy", "other"):
            return None
        self.asked.add(name)
        try:
            spec = importlib.util.find_spec(name)
            spec.loader = Chained(spec.loader)
            return spec
        finally:
            self.asked.discard(name)
seen = []
"""


@pytest.mark.parametrize("place", [0, 1])
def test_import_hooks_of_others(python: Python, place: int) -> None:
    """Those that wrap what all finders find (wrapt's way) in front of ours, or behind."""
    python(f"""
{IMPORT_HOOK}
sys.meta_path.insert({place}, Hooking())
import toy, other
assert said() == [*{BOTH}, ("other", "end of other")]
assert seen == ["toy", "other"]
""")


@pytest.mark.parametrize(
    "change",
    [
        "sys.meta_path.reverse()",
        "sys.meta_path[:] = [one for one in sys.meta_path if isinstance(one, type)]",
        "sys.meta_path = sys.meta_path[1:]",
    ],
)
def test_a_rearranged_meta_path(python: Python, change: str) -> None:
    """Also one that ours is not on any more."""
    python(f"""
{change}
importlib.util.find_spec("toy")
import toy
assert said() == {BOTH}
""")


def test_what_only_stands_in_for_a_module_has_no_hook(python: Python) -> None:
    """A script's own stub, and a name that must not be imported."""
    python("""
from types import ModuleType
sys.modules["toy"], sys.modules["other"] = ModuleType("toy"), None
import wave
assert said() == []
""")


def test_what_is_imported_already(python: Python) -> None:
    """Its hook is called at once."""
    python(
        f"""
assert said() == {BOTH[::-1]}
import toy
assert said() == []
""",
        before="import toy\n",
    )


def test_frameworks_are_imported_without_collections(python: Python) -> None:
    """The garbage collector is off while a module with a hook is executed, also for those
    that it imports, and as it was before from then on, whatever became of the import."""
    (python.directory / "other.py").write_text(
        "import gc, os\nEND = gc.isenabled()\nif os.environ.pop('FAIL', None): 1 / 0\n"
    )
    python(
        "import gc, os\n"
        "os.environ['FAIL'] = 'yes'\n"
        "try: import other\n"
        "except ZeroDivisionError: pass\n"
        "assert gc.isenabled()\n"
        "import other, toy\n"
        "assert other.END is False and gc.isenabled()\n"
        "del sys.modules['other']\n"
        "gc.disable()\n"
        "import other\n"
        "assert not gc.isenabled()\n"
    )
