"""Errors of capabilities' calls; the model gets them as the call's result."""

from __future__ import annotations

from config.errors import ModelVisible, ToolCutOff


class CapabilityFailed(ModelVisible):
    """The capability's program or server reported a failure, or could not be started."""

    code = "capability_failed"
    remedy = "The message ends with what the program wrote to its standard error, or the server's answer."


OUTPUT_NOT_JSON = ModelVisible.row(
    "output_not_json",
    "The capability ended without an error, and its output is not one JSON value. It may have taken effect.",
    remedy=(
        "The capability's author writes one JSON value to the standard output, and everything else to standard error."
    ),
)

OUTPUT_TOO_LONG = ToolCutOff.row(
    "output_too_long",
    "The capability wrote more than its limit and was ended.",
    remedy="The capability writes less, or its file allows more by `limits.output_kb`.",
)

CONTAINERS_DISABLED = ModelVisible.row(
    "containers_disabled",
    "The worker starts no containers, so the call was not made.",
    text="containers are off on this worker; the operator sets CALLBOARD_CONTAINERS=podman, or docker.",
    seed_name="DAGGER_E2E_DISABLED",
    remedy="Set `CALLBOARD_CONTAINERS` for the workers ([capabilities](capabilities.md#containers)).",
)

IMAGE_MISSING = ModelVisible.row(
    "image_missing",
    "The container image is not on the worker's machine; Callboard pulls none.",
    text="the image {image} is not on the worker's machine; pull or build it there first.",
    remedy="Pull or build the image on the machines of the workers.",
)
