"""The files in ``deploy/kubernetes``, before the schemas of Kubernetes and our own facts."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from kubeflow_trainer_api import models  # pyright: ignore[reportMissingTypeStubs]
from kubernetes_validate.utils import (  # pyright: ignore[reportMissingTypeStubs]  # it has none
    ValidationError,
    all_versions,
    validate,
)

from supervisor.core.jobs.spec import DrainSpec, build_spec, read_toml
from supervisor.core.lifecycle.exit_handling import EXIT_DRAINED, EXIT_GAVE_UP

NEWEST = list(dict.fromkeys(all_versions()))[-4:]
EXIT_USAGE = 2


@pytest.fixture
def documents(root: Path) -> list[dict[str, Any]]:
    """The documents of job.yaml."""
    text = (root / "deploy" / "kubernetes" / "job.yaml").read_text()
    return list(yaml.safe_load_all(text))


@pytest.fixture
def job(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The spec of its Job."""
    (found,) = (one for one in documents if one["kind"] == "Job")
    spec: dict[str, Any] = found["spec"]
    return spec


@pytest.mark.parametrize("version", NEWEST)
def test_the_manifests_are_valid(documents: list[dict[str, Any]], version: str) -> None:
    """For the four newest versions; a key that is unknown there is an error."""
    for document in documents:
        validate(document, version, strict=True)


@pytest.fixture
def remote(root: Path) -> list[dict[str, Any]]:
    """The documents of job-remote.yaml."""
    text = (root / "deploy" / "kubernetes" / "job-remote.yaml").read_text()
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("version", NEWEST)
def test_the_one_with_a_bucket_is_valid(
    remote: list[dict[str, Any]], version: str
) -> None:
    """For the same versions."""
    for document in remote:
        validate(document, version, strict=True)


def test_the_one_with_a_bucket_is_gone_on_with(
    remote: list[dict[str, Any]], job: dict[str, Any]
) -> None:
    """Its spec can be used, its rules are those of the other, and what is saved at an
    eviction can be sent."""
    _, configuration, other = remote
    spec = build_spec(read_toml(configuration["data"]["job.toml"]))
    assert spec.snapshots.remote
    assert other["spec"]["podFailurePolicy"] == job["podFailurePolicy"]
    pod = other["spec"]["template"]["spec"]
    needed = spec.drain.grace + spec.snapshots.remote_wait
    assert pod["terminationGracePeriodSeconds"] > needed


def test_an_unknown_key_is_seen(documents: list[dict[str, Any]]) -> None:
    """The schemas would have said so."""
    documents[1]["spec"]["podFailurPolicy"] = {}
    with pytest.raises(ValidationError):
        validate(documents[1], NEWEST[-1], strict=True)


def test_exit_codes_are_ours(job: dict[str, Any]) -> None:
    """What is final fails the Job, what was drained is gone on with, and neither rule is
    about a container that is not there."""
    final, drained, disrupted = job["podFailurePolicy"]["rules"]
    assert final["action"] == "FailJob"
    assert set(final["onExitCodes"]["values"]) == {EXIT_GAVE_UP, EXIT_USAGE}
    assert drained["action"] == disrupted["action"] == "Ignore"
    assert drained["onExitCodes"]["values"] == [EXIT_DRAINED]
    (container,) = job["template"]["spec"]["containers"]
    for rule in (final, drained):
        assert rule["onExitCodes"]["containerName"] == container["name"]
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_a_drain_fits_into_the_grace_of_the_pod(job: dict[str, Any]) -> None:
    """By default, with time for the supervisor itself."""
    grace = job["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace >= DrainSpec().grace + 20


def test_mounts_are_of_volumes_that_are_there(
    job: dict[str, Any], documents: list[dict[str, Any]]
) -> None:
    """And what may be written to is not the root."""
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {one["name"]: one for one in pod["volumes"]}
    mounts = {
        one["mountPath"]: volumes[one["name"]] for one in container["volumeMounts"]
    }
    assert mounts["/dev/shm"]["emptyDir"]["medium"] == "Memory"  # noqa: S108  # its name
    claim = mounts["/state"]["persistentVolumeClaim"]["claimName"]
    assert documents[0]["metadata"]["name"] == claim
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert "--requeued" in container["args"]
    assert "--state-dir=/state" in container["args"]


def test_what_kustomize_takes_is_there(root: Path) -> None:
    """All but the script, which is the user's."""
    where = root / "deploy" / "kubernetes"
    told = yaml.safe_load((where / "kustomization.yaml").read_text())
    assert all((where / name).exists() for name in told["resources"])
    (monitor,) = yaml.safe_load_all((where / "podmonitor.yaml").read_text())
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "metrics"


def documents_of(root: Path, name: str) -> list[dict[str, Any]]:
    """All of a file of that directory."""
    text = (root / "deploy" / "kubernetes" / name).read_text()
    return list(yaml.safe_load_all(text))


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Each plain value in it, by its place."""
    if isinstance(value, dict):
        inside = [(str(key), one) for key, one in cast("dict[str, Any]", value).items()]
    elif isinstance(value, list):
        items = cast("Iterable[Any]", value)
        inside = [(str(n), one) for n, one in enumerate(items)]
    else:
        yield at, value
        return
    for key, one in inside:
        yield from leaves(one, f"{at}/{key}")


def lost(document: dict[str, Any]) -> list[str]:
    """The places in it that the models of its kind do not know, or know otherwise."""
    known = KINDS[document["kind"]].from_dict(document)
    kept = {} if known is None else dict(leaves(known.to_dict()))
    return [at for at, one in leaves(document) if kept.get(at, MISSING) != one]


MISSING = object()
KINDS: dict[str, Any] = {
    "JobSet": models.JobsetV1alpha2JobSet,
    "ClusterTrainingRuntime": models.TrainerV1alpha1ClusterTrainingRuntime,
    "TrainJob": models.TrainerV1alpha1TrainJob,
}
FILES = {
    "jobset.yaml": ["JobSet"],
    "trainingruntime.yaml": ["ClusterTrainingRuntime", "TrainJob"],
}


@pytest.mark.parametrize("name", FILES)
def test_what_other_controllers_take_is_as_they_know_it(root: Path, name: str) -> None:
    """Nothing that Kubeflow's own models of JobSet and of its Trainer do not have."""
    documents = documents_of(root, name)
    assert [one["kind"] for one in documents] == FILES[name]
    assert [lost(one) for one in documents] == [[]] * len(documents)
    documents[0]["spec"]["nobodyKnows"] = 1
    assert lost(documents[0]) == ["/spec/nobodyKnows"]


@pytest.mark.parametrize(
    ("name", "of_set"), [("jobset.yaml", "spec"), ("trainingruntime.yaml", "template")]
)
@pytest.mark.parametrize("version", NEWEST)
def test_the_jobs_in_them_are_as_ours(
    root: Path, job: dict[str, Any], name: str, of_set: str, version: str
) -> None:
    """Valid as Jobs, with the same rules about how a pod ends."""
    spec = documents_of(root, name)[0]["spec"]
    found = spec if of_set == "spec" else spec[of_set]["spec"]
    (replicated,) = found["replicatedJobs"]
    other = replicated["template"]["spec"]
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}}
    validate({**head, "spec": other}, version, strict=True)
    (container,) = other["template"]["spec"]["containers"]
    rules = other["podFailurePolicy"]["rules"]
    assert [one["action"] for one in rules] == ["FailJob", "Ignore", "Ignore"]
    for rule, ours in zip(rules, job["podFailurePolicy"]["rules"], strict=True):
        if (codes := rule.get("onExitCodes")) is not None:
            assert codes["containerName"] == container["name"]
            assert codes["values"] == ours["onExitCodes"]["values"]
        else:
            assert rule == ours
    words = [*container.get("command", ()), *container["args"]]
    assert "--requeued" in words
    assert any(one.startswith("--name=") and "$(" in one for one in words)


def test_a_queue_of_kueue_is_given_the_job(
    root: Path, documents: list[dict[str, Any]]
) -> None:
    """The patch names our Job, and what it makes of it is valid: suspended, until the
    queue admits it."""
    (told,) = documents_of(root, "kueue/kustomization.yaml")
    assert told["resources"] == [".."]
    (patch,) = told["patches"]
    whole = documents[1]
    assert patch["target"] == {"kind": "Job", "name": whole["metadata"]["name"]}
    for change in yaml.safe_load(patch["patch"]):
        assert change["op"] == "add"
        *path, last = change["path"].strip("/").split("/")
        place = whole
        for key in path:
            place = place[key]
        place[last.replace("~1", "/")] = change["value"]
    validate(whole, NEWEST[-1], strict=True)
    assert whole["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    assert whole["spec"]["suspend"] is True
