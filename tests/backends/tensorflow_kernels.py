"""Which operations of a traced program TensorFlow's CUDA build would have to run on the host, told without a GPU."""

INNER = {"StatefulPartitionedCall", "PartitionedCall", "While", "StatelessWhile", "If", "StatelessIf"}


def without_gpu_kernel(graph) -> dict[str, int]:
    """How often each operation occurs whose number formats no GPU kernel takes, in a graph and all its functions."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    found: dict[str, int] = {}
    for node in nodes:
        if node.op not in INNER | {"Placeholder", "Const"} and not _has_kernel(node):
            found[node.op] = found.get(node.op, 0) + 1
    return found


def _has_kernel(node) -> bool:
    from tensorflow.python.framework.kernels import get_registered_kernels_for_op

    kernels = get_registered_kernels_for_op(node.op).kernel
    return any(kernel.device_type in ("GPU", "DEFAULT") and _takes(kernel, node) for kernel in kernels)


def _takes(kernel, node) -> bool:
    for constraint in kernel.constraint:
        if constraint.name in node.attr:
            attribute = node.attr[constraint.name]
            types = [attribute.type] if attribute.WhichOneof("value") == "type" else attribute.list.type
            if not set(types) <= set(constraint.allowed_values.list.type):
                return False
    return True
