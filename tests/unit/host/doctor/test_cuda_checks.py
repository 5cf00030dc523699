"""What the doctor says of TensorFlow, the driver and CUDA."""

import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from supervisor.host.doctor.cuda_checks import (
    DriverVersion,
    Framework,
    examine,
    findings,
)
from supervisor.host.doctor.finding import FindingLevel
from supervisor.host.doctor.framework_probe import build_info
from tests.support.fake_nvml import FakeNvml, build

GPUS = DriverVersion(cuda=(12, 8), gpus=2)
CUDA = {"is_cuda_build": True, "cuda_version": "12.5.1", "cudnn_version": "9"}
WANTS = [
    "numpy>=1.26.0",
    'nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"',
    'nvidia-cuda-runtime-cu12<13.0,>=12.5.82; extra == "and-cuda"',
]
WHEELS = {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cuda-runtime-cu12": "12.9.79"}
WHOLE = Framework(
    python="/venv/bin/python",
    name="tensorflow",
    version="2.21.0",
    built_with=CUDA,
    wants=WANTS,
    nvidia=WHEELS,
    libraries={"cudart": None, "cudnn": None},
)
BARE = replace(WHOLE, nvidia={})
FOR_CPUS = replace(WHOLE, name="tensorflow-cpu", built_with={"is_cuda_build": False})


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    """A driver."""
    return FakeNvml(build(tmp_path), tmp_path / "script")


@pytest.mark.parametrize(
    ("framework", "driver", "about", "level", "words"),
    [
        (None, GPUS, "TensorFlow", FindingLevel.WARNING, "there is none"),
        (
            Framework(python="/p", name=None),
            None,
            "TensorFlow",
            FindingLevel.WARNING,
            "/p",
        ),
        (WHOLE, None, "TensorFlow", FindingLevel.OK, "built with CUDA 12.5.1, cuDNN 9"),
        (FOR_CPUS, None, "TensorFlow", FindingLevel.OK, "for CPUs alone"),
        (FOR_CPUS, GPUS, "CUDA", FindingLevel.WARNING, "2 GPUs stay unused"),
        (WHOLE, GPUS, "CUDA", FindingLevel.OK, "up to 12.8"),
        (WHOLE, replace(GPUS, cuda=(13, 0)), "CUDA", FindingLevel.OK, "up to 13.0"),
        (
            WHOLE,
            replace(GPUS, cuda=(12, 4)),
            "CUDA",
            FindingLevel.WARNING,
            "more slowly",
        ),
        (
            WHOLE,
            replace(GPUS, cuda=(11, 8)),
            "CUDA",
            FindingLevel.PROBLEM,
            "up to 11.8",
        ),
        (WHOLE, GPUS, "CUDA libraries", FindingLevel.OK, "cuDNN 9.10.2.21"),
        (BARE, GPUS, "CUDA libraries", FindingLevel.PROBLEM, "nvidia-cudnn-cu12"),
        (
            replace(BARE, libraries={"cudart": "libcudart.so.12", "cudnn": None}),
            GPUS,
            "CUDA libraries",
            FindingLevel.PROBLEM,
            "missing",
        ),
        (
            replace(
                BARE, libraries={"cudart": "libcudart.so.12", "cudnn": "libcudnn.so.9"}
            ),
            GPUS,
            "CUDA libraries",
            FindingLevel.OK,
            "libcudnn.so.9",
        ),
        (
            replace(WHOLE, nvidia={**WHEELS, "nvidia-cudnn-cu12": "8.9.7.29"}),
            GPUS,
            "CUDA libraries",
            FindingLevel.PROBLEM,
            "nvidia-cudnn-cu12 is 8.9.7.29",
        ),
        (
            replace(WHOLE, nvidia={**WHEELS, "nvidia-cuda-runtime-cu12": "13.0.1"}),
            GPUS,
            "CUDA libraries",
            FindingLevel.PROBLEM,
            "<13.0",
        ),
    ],
)
def test_judgements(
    framework: Framework | None,
    driver: DriverVersion | None,
    about: str,
    level: FindingLevel,
    words: str,
) -> None:
    """Each line says how it is to be taken, and what to do unless all is well."""
    (found,) = [one for one in findings(framework, driver) if one.about == about]
    assert found.level is level
    assert words in found.text
    assert bool(found.fix) is (level is not FindingLevel.OK)


def test_who_has_no_gpu_is_spared() -> None:
    """On a machine for CPUs nobody is asked to install CUDA."""
    for driver in (None, replace(GPUS, gpus=0)):
        assert [one.about for one in findings(BARE, driver)] == ["TensorFlow"]


def test_a_driver_that_does_not_answer_is_no_missing_gpu() -> None:
    """It is loaded: that nothing was compared is told, with the reason."""
    (_, found) = findings(WHOLE, None, gpu=True)
    assert (found.about, found.level) == ("CUDA", FindingLevel.NOT_CHECKED)
    assert "does not answer" in found.text


def test_the_other_wheel_has_to_go_first() -> None:
    """``tensorflow-cpu`` has the same files."""
    (found,) = [one for one in findings(FOR_CPUS, GPUS) if one.about == "CUDA"]
    assert found.fix.startswith("pip uninstall tensorflow-cpu, then pip install")


def test_a_build_info_of_another_kind() -> None:
    """What cannot be read tells nothing."""
    assert build_info("x = 1\n") == {}
    assert build_info("b = OrderedDict([('is_cuda_build', True)])") == {
        "is_cuda_build": True
    }


def test_this_interpreter_and_a_driver(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installed TensorFlow is read without being imported, the driver is asked."""
    nvml.gpus(2)
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML"):
        monkeypatch.setenv(name, nvml.environment[name])
    found = {one.about: one for one in examine(sys.executable, gpu=False)}
    assert found["TensorFlow"].text.startswith(f"{version('tensorflow')}, built with")
    assert found["CUDA"].text == "the driver runs CUDA up to 13.0"
    assert "CUDA libraries" in found


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    """It is said, and the rest goes on."""
    (found,) = examine(str(tmp_path / "python"), gpu=False)
    assert (found.about, found.level) == ("TensorFlow", FindingLevel.WARNING)
