"""The sentences about what slices change in a result."""

NAMED = 3
"""So many layers of a class are named."""

COUPLED = (
    "the prediction for a sample depends on the other samples of its batch, "
    "so slices give others than the whole batch"
)
LOSS_UPDATES_METRICS = "the model's compute_loss updates metrics: they are given slices"
LOSS_AVERAGED = (
    "the model's compute_loss is neither a mean nor a sum over samples: "
    "it is averaged over slices"
)

CALL_UPDATES_METRICS = "the model's call updates metrics: they are given slices"
HOOKS = (
    "a hook of the script's on the gradient of a weight is called for each slice, and not"
    " once for the whole batch"
)
HALF = (
    "layers compute in half precision: their gradients are rounded in each slice, and not"
    " once for the whole batch"
)


def added_averaged(number: int, *, of: int) -> str:
    """Of an added loss for which there is no rule."""
    return (
        f"added loss {number} of {of} (add_loss or a regulariser) is "
        "neither a mean nor a sum over samples: it is averaged over slices"
    )


def added_unknown(number: int, *, of: int) -> str:
    """Of an added loss that is zero, or no number, in all trials."""
    return (
        f"added loss {number} of {of} (add_loss or a regulariser) is zero for the first"
        " samples, so nobody knows whether it is a mean or a sum over samples: it is"
        " averaged over slices"
    )


def of_layers(stirred: list[tuple[str, str, bool]]) -> list[str]:
    """Of layers whose state a call in training changes: their class, their name, and
    whether it is their random state.

    One for all layers of a class: a U-Net has a dozen of BatchNormalization.
    """
    alike: dict[tuple[str, bool], list[str]] = {}
    for kind, name, random in stirred:
        alike.setdefault((kind, random), []).append(name)
    return [
        _sentence(kind, names, random=random) for (kind, random), names in alike.items()
    ]


def _sentence(kind: str, names: list[str], *, random: bool) -> str:
    if len(names) == 1:
        who, draw, keep, they_are = (
            f"layer '{names[0]}' ({kind})",
            "draws",
            "keeps",
            "it is",
        )
    else:
        listed = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
        who = f"{len(names)} layers of {kind} ({listed})"
        draw, keep, they_are = "draw", "keep", "they are"
    if random:
        return f"{who} {draw} random numbers: slices draw others than a whole batch"
    return f"{who} {keep} statistics of what {they_are} given: {they_are} given slices"
