"""What would be made, for a person who is about to pay for it."""

from whichdevice.cloud.order import Order
from whichdevice.cloud.rent import rent_lines, rent_of


def offer_lines(order: Order) -> list[str]:
    """The machine, where, how it ends and what it costs; labels and login included."""
    vm = order.vm
    what = "spot " * vm.spot + f"TPU VM {order.kind.name} ({order.kind.chips} chips of {order.kind.hardware})"
    asked = f"queued for up to {vm.queue_minutes:g} minutes" if vm.queued else "asked for at once"
    lines = [
        f"One {what}, runtime {vm.runtime_version or order.kind.runtime}, named {order.name}.",
        f"In project {order.project}, zone {' or else '.join(vm.zone)}; {asked}.",
        f"Labels: {', '.join(f'{key}={value}' for key, value in order.labels.items())}; login {vm.ssh_user}, "
        + (f"key {vm.ssh_key}." if vm.ssh_key else "with a key made for it alone."),
        f"It deletes itself after {vm.max_hours:g} h at the latest.",
    ]
    return [*lines, *rent_lines(rent_of(order.kind), vm.max_hours, vm.spot)]
