"""Puts functions in the place of another package's, and takes them away again."""

import sys


class Patch:
    """Replacements that are made by `replace` and undone by `remove`, or at the end of a `with`."""

    def __init__(self):
        self._undo = []

    def set(self, owner, name, value):
        old = getattr(owner, name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, old))

    def replace(self, package, old, new):
        """Everywhere in a package's modules, also where they were imported from each other, and in
        its tables of functions. Modules that are imported later import what stands there."""
        count = 0
        for module_name, module in list(sys.modules.items()):
            if module is None or module_name.partition(".")[0] != package:
                continue
            for name, value in list(vars(module).items()):
                if value is old:
                    self.set(module, name, new)
                    count += 1
                elif type(value) is dict:
                    for key in [k for k, v in value.items() if v is old]:
                        value[key] = new
                        self._undo.append(lambda table=value, key=key: table.update({key: old}))
        return count

    def remove(self):
        while self._undo:
            self._undo.pop()()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()
