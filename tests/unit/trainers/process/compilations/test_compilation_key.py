"""The key of compilations: what may change the result changes it, the rest does not."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.attempts import Attempts
from trainers.process.compilations import compilation_key as keys

CPUINFO = """processor\t: 0
model name\t: A Processor
cpu MHz\t\t: {}
flags\t\t: fpu avx2

processor\t: 1
model name\t: Another
"""


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    """For directives."""
    return Attempts(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"script_hash": "another"},
        {"deterministic": True},
        {"gpu_memory_limit_bytes": 1},
    ],
)
def test_what_is_asked_for_decides(
    attempts: Attempts, changes: dict[str, object]
) -> None:
    """An edited script, deterministic algorithms, less memory: compiled anew."""
    plain = attempts.directive(Path("x.py"))
    other = replace(plain, **changes)  # type: ignore[arg-type]  # fields of it
    assert keys.key_of("jax", plain, {}) != keys.key_of("jax", other, {})


def test_an_attempt_is_like_the_one_before(attempts: Attempts) -> None:
    """Neither its number, nor the places it is given, nor what it restores."""
    first = attempts.directive(Path("x.py"), attempt=1)
    second = replace(first, attempt=2, attempt_directory="/else", prove=True)
    places = {"TF_BFC_MEMORY_DUMP": "/2", "JAX_COMPILATION_CACHE_DIR": "/2"}
    here = {"TF_BFC_MEMORY_DUMP": "/1", "HOME": "/home"}
    assert keys.key_of("jax", first, here) == keys.key_of("jax", second, places)


def test_frameworks_are_apart(attempts: Attempts) -> None:
    """Each has its own."""
    directive = attempts.directive(Path("x.py"))
    assert keys.key_of("jax", directive, {}) != keys.key_of("tensorflow", directive, {})


@pytest.mark.parametrize(
    "variable", ["XLA_FLAGS", "TF_XLA_FLAGS", "TF_CUDNN_USE_AUTOTUNE", "JAX_ENABLE_X64"]
)
def test_settings_decide(variable: str) -> None:
    """What a person or a remedy sets before the script."""
    assert list(keys.variables({variable: "1"}, one_model=True)) == [f"{variable}=1"]


def test_which_gpu_it_is_decides_where_they_differ() -> None:
    """On a box of one model another GPU goes by the same code; none at all is the CPU."""
    one, none = {"CUDA_VISIBLE_DEVICES": "GPU-1"}, {"CUDA_VISIBLE_DEVICES": ""}
    assert list(keys.variables(one, one_model=True)) == []
    assert list(keys.variables(one, one_model=False)) == ["CUDA_VISIBLE_DEVICES=GPU-1"]
    assert list(keys.variables(none, one_model=True)) == ["CUDA_VISIBLE_DEVICES="]


def test_an_upgrade_decides(tmp_path: Path) -> None:
    """Of what compiles, not of every package."""
    for name in ("tensorflow-2.21.0", "rich-14.0", "nvidia_cudnn_cu12-9.3", "jaxlib-1"):
        (tmp_path / f"{name}.dist-info").mkdir()
    assert keys.distributions([str(tmp_path), str(tmp_path), "/nowhere"]) == [
        "jaxlib-1.dist-info",
        "nvidia_cudnn_cu12-9.3.dist-info",
        "tensorflow-2.21.0.dist-info",
    ]


def test_a_processor_is_its_model_and_features() -> None:
    """Not its clock, which changes while one looks."""
    slow, fast = (keys.processor(CPUINFO.format(clock)) for clock in (800, 3000))
    assert slow == fast == "model name\t: A Processor\nflags\t\t: fpu avx2"


def test_gpus_are_their_models(tmp_path: Path) -> None:
    """As the driver tells them; none where there is no driver."""
    for bus, model in (("0000:01", "NVIDIA H100"), ("0000:02", "NVIDIA A100")):
        (tmp_path / "gpus" / bus).mkdir(parents=True)
        told = f"Model: \t\t {model}\nIRQ:   \t\t 1\n"
        (tmp_path / "gpus" / bus / "information").write_text(told)
    assert keys.gpu_models(tmp_path) == ["NVIDIA A100", "NVIDIA H100"]
    assert keys.gpu_models(tmp_path / "none") == []
