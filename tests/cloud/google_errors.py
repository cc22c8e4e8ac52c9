"""How the Cloud TPU API refuses: a request by HTTP status, status and message; an operation by code and message."""

DENIED = (
    403,
    "PERMISSION_DENIED",
    "Permission 'tpu.nodes.create' denied on 'projects/rent-a-tpu/locations/us-central1-b'",
)
DISABLED = 403, "PERMISSION_DENIED", "Cloud TPU API has not been used in project 123 before or it is disabled."
QUOTA = (
    429,
    "RESOURCE_EXHAUSTED",
    ("Quota limit 'TPUV2sPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0 in zone us-central1-b."),
)
BUSY = 503, "UNAVAILABLE", "The service is currently unavailable."
NO_CAPACITY = 8, 'There is no more capacity in the zone "us-central1-b"; you can try in another zone'
INTERNAL = 13, "an internal error has occurred"
