"""The files in ``deploy/kubernetes``, before the schemas of Kubernetes and our own facts."""

from pathlib import Path
from typing import Any

import pytest
import yaml
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
