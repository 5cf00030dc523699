"""Who is compared: how each trains ``fault_trial.py``, and makes it go on after a fault."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

TRIAL = Path(__file__).with_name("fault_trial.py")
PACKAGES = Path(sys.prefix)
"""Where ``make`` installs what the contestants need, each in a directory of its own."""
LOOP = ("sh", "-c", 'until "$@"; do :; done', "sh")
ELASTIC = ("--standalone", "--nnodes=1", "--nproc-per-node=1", "--max-restarts=1000")
ALONE = ("--no-python", "env", "-u", "PYTHONPATH")
"""The script sees no package of the launcher's: Keras would import some of them."""
TORCH = PACKAGES / "torch-backend"
NVRX = PACKAGES / "nvrx"
ORBAX = PACKAGES / "orbax"


@dataclass(frozen=True)
class Contestant:
    """One way to go on after a fault."""

    name: str
    launcher: tuple[str, ...] = LOOP
    """What stands before the interpreter."""
    saving: tuple[str, ...] = ()
    """Arguments of the script."""
    spec: str | None = None
    """It is ours, with this spec; None: it is not."""
    needs: tuple[Path, ...] = ()
    """Directories of packages."""
    fault: str = "kill"
    seen: tuple[Path, ...] = ()
    """Those of ``needs`` that the launcher itself imports from."""

    def missing(self) -> str | None:
        """Why it cannot run here; None: it can."""
        for one in self.needs:
            if not any(one.glob("*.dist-info")):
                return f"cannot be had: make installed nothing in {one.name}"
        return None

    def command(self, place: Path, model: str) -> list[str]:
        """What trains ``model`` in the directory ``place``."""
        to = ["--to", str(place / "saved")] if self.saving else []
        words = [str(TRIAL), model, str(place / "told"), *self.saving, *to]
        if self.spec is None:
            return [*self.launcher, sys.executable, *words]
        ours = str(Path(sys.executable).with_name("trainwarden"))
        run = ["run", "--state-dir", str(place / "state")]
        return [ours, *run, "--spec", str(place / "spec.toml"), *words]

    def environment(self) -> dict[str, str]:
        """That of its launcher."""
        path = {"PYTHONPATH": os.pathsep.join(map(str, self.seen))} if self.seen else {}
        return {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **path}


def _loop(name: str, *saving: str) -> Contestant:
    return Contestant(name, saving=saving)


def _orbax(name: str, when: str) -> Contestant:
    saving = ("--orbax", when, "--packages", str(ORBAX))
    return Contestant(name, saving=saving, needs=(ORBAX,))


def _elastic(name: str, module: str, *options: str, of: tuple[Path, ...]) -> Contestant:
    launcher = (sys.executable, "-m", module, *ELASTIC, *options, *ALONE)
    backup = ("--backup", "10")
    return Contestant(name, launcher, saving=backup, needs=of, seen=of)


def spec(*, cache: bool = False, standby: bool = False, in_place: bool = False) -> str:
    """A spec of ours, with what is compared."""
    return (
        f"[compilation]\ncache = {str(cache).lower()}\n"
        f"[restart]\nstandby = {str(standby).lower()}\n"
        f"[remedies]\nin_place = {str(in_place).lower()}\n"
    )


BY_EPOCH = _loop("loop, backup an epoch", "--backup", "epoch")
BY_STEPS = _loop("loop, backup 10 steps", "--backup", "10")
NVRX_MODULE = "nvidia_resiliency_ext.fault_tolerance.launcher"
CONTESTANTS = (
    BY_EPOCH,
    BY_STEPS,
    _orbax("loop, Orbax an epoch", "epoch"),
    _orbax("loop, Orbax 10 steps", "10"),
    _elastic(
        *["ft_launcher, 10 steps", NVRX_MODULE, "--ignore-missing-fault-tol-cfg"],
        of=(NVRX, TORCH),
    ),
    _elastic("torchrun, 10 steps", "torch.distributed.run", of=(TORCH,)),
    Contestant("ours, cold", spec=spec()),
    Contestant("ours, cache", spec=spec(cache=True)),
    Contestant("ours, standby", spec=spec(cache=True, standby=True)),
    Contestant("ours, in place", spec=spec(in_place=True), fault="nan"),
)
OURS_AT_ITS_BEST = Contestant(
    "ours",
    spec=spec(cache=True, standby=True, in_place=True)
    + '[liveness]\nstep = "5s"\n[memory]\ncpu = "2GiB"\n',
)
"""For ``make bench-goodput``; five seconds between steps of 0.2 are a hang there. Under a
limit memory is counted, as it always is on a GPU: who goes on in place after it ran out has to
know that it is back."""
BASES = (BY_EPOCH.name, BY_STEPS.name)
"""What ratios are taken to."""
