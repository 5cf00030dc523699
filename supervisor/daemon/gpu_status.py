"""The GPUs of the box as people are shown them."""

from supervisor.core.gpu.gpu_view import GpusShown, Tenancy, picture
from supervisor.daemon.scheduler import Scheduler


def gpus_shown(box: Scheduler) -> GpusShown:
    """What the driver said last, and who was given what; never waits."""
    observer = box.starter.observer
    view = observer.gpus()
    fresh = view.fresh(observer.clock.now()) is not None
    holders = {
        gpu: entry.name for entry in box.entries.values() for gpu in entry.life.gpus
    }
    tenancy = Tenancy(
        owners=observer.machine().owners, holders=holders, out=box.out_of_service
    )
    return picture(
        view.sample,
        fresh=fresh,
        problem="" if fresh else view.problem or "The GPU driver has not answered yet.",
        reboot=view.reboot,
        xids=view.xids,
        tenancy=tenancy,
    )
