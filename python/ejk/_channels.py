"""What is wrong with a call of a step of this package's, whose own lines say nothing to a user."""

import re

from ._errors import TensorError
from ._trace import Argument

# Arguments that have channels in every function; others may be a number a head.
_ROWS = ("q", "k", "v", "r", "w", "x", "B", "C", "p", "z")


def error_of(called, error, names, spec):
    """The error of a step, with the channels of the tensors that it was given."""
    tensors = [(n, a.channels) for n, a in zip(names, spec.arguments) if isinstance(a, Argument)]
    given = [f"'{n}' has {channels or 'no'} channel{'s' * (channels != 1)}" for n, channels in tensors]
    given += [f"'initial_state' is {list(shape)} a head" for known, shape in
              zip(spec.initial, spec.state_shapes) if known]
    # A last dimension of 1 is most often one that a caller kept.
    kept = "".join(f"; '{n}' has 1 channel, where it needs none or as many as the rows that it meets"
                   for n, channels in tensors if channels == 1 and n not in _ROWS)
    return TensorError(f"{called}: {re.sub(r'^.*?:[0-9]+: ', '', str(error))}: {', '.join(given)}{kept}")
