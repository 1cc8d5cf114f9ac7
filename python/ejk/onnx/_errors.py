"""What is wrong with a node of a model."""


class NodeError(Exception):
    """What is wrong with a node; the caller knows which one it is."""


def check(condition, message):
    if not condition:
        raise NodeError(message)
