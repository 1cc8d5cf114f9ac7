"""Packages loaded into this process, by ejk's Python package and torch's memory: two folders of
them timed against each other, and one run again and again for its bits."""
import json
import statistics
import sys
from pathlib import Path

from measure import profiles
from measure.cases import NAMES, chosen
from measure.report import report


class Loaded:
    """A package's entry on the GPU, with inputs of given sizes and a captured graph. Inputs that `given`
    lacks by name are random."""

    def __init__(self, path, entry, sizes, seed=1, given={}, profile="weak"):
        import torch
        sys.path.append(str(Path(__file__).resolve().parents[2] / "python"))
        from ejk._library import Buffer, Launch, runtime
        from ejk._program import Entry, _evaluate
        self.torch, self.evaluate, self.profile = torch, _evaluate, profile
        data = Path(path).read_bytes()
        manifest = json.loads(data[64:64 + int.from_bytes(data[16:24], "little")])
        self.package = runtime().load(data)
        found = next(e for e in manifest["entries"] if e["name"] == entry)
        described = Entry(None, 0, (), found, data, "")
        types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32}
        torch.manual_seed(seed)
        self.described = described
        # A program may name the heads of each tensor.
        named = [size for t in described.inputs for size in t["shape"] if isinstance(size, str)]
        sizes = {name: sizes.get("H") for name in named} | sizes
        self.inputs = [given[t["name"]] if t["name"] in given else self.draw(t, sizes, types)
                       for t in described.inputs]
        shapes = tuple(tuple(t.shape) for t in self.inputs)
        self.outputs = [self.inputs[t["may_alias"]] if t.get("in_place") else
                        torch.empty(shape, dtype=types[t["dtype"]], device="cuda")
                        for t, shape in zip(described.outputs, described.output_shapes(shapes))]
        tensors = list(zip((*described.inputs, *described.outputs), (*self.inputs, *self.outputs)))
        self.bytes = sum(t.nbytes for _, t in tensors)
        buffers = [Buffer(t.data_ptr(), d["dtype"], t.shape, t, (2, 0)) for d, t in tensors]
        self.executable = runtime().create_executable(self.package, (2, 0))
        index = runtime().find_entry(self.package, entry)
        count = len(self.inputs)
        self.launched = Launch(self.package, index, self.executable, buffers[:count], buffers[count:])
        self.memory = torch.empty(self.launched.workspace_bytes + 256, dtype=torch.uint8, device="cuda")
        aligned = -(-self.memory.data_ptr() // 256) * 256
        self.workspace = Buffer(aligned, "i32", (1,), self.memory, (2, 0))
        self.buffers = buffers

    def draw(self, tensor, sizes, types):
        torch = self.torch
        shape = [self.evaluate(size, sizes) for size in tensor["shape"]]
        if tensor["dtype"] == "i32":  # a slot of each sequence's own
            return torch.randperm(sizes["P"], device="cuda")[:shape[0]].to(torch.int32)
        if tensor.get("role") == "log_decay":
            return profiles.draw(torch, self.profile, shape).to(types[tensor["dtype"]])
        if tensor.get("role") == "rate":
            return torch.rand(shape, device="cuda").to(types[tensor["dtype"]])
        if tensor.get("role") == "key":
            keys = torch.randn(shape, device="cuda")
            return torch.nn.functional.normalize(keys, dim=-1).to(types[tensor["dtype"]])
        return (torch.randn(shape, device="cuda") / 8).to(types[tensor["dtype"]])

    def named_outputs(self):
        return {tensor["name"]: output for tensor, output in zip(self.described.outputs, self.outputs)}

    def launch(self):
        stream = self.torch.cuda.current_stream().cuda_stream
        self.launched(self.buffers, self.workspace, stream)

    def capture(self):
        self.launch()
        self.torch.cuda.synchronize()
        self.graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(self.graph):
            self.launch()

    def time(self):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)


def sizes_of(case):
    sizes = {key: int(value) for key, value in (part.split("=") for part in case.sizes.split(","))}
    heads = sizes.get("H", case.package.heads)
    return {name: heads for name in ("H", "Hkv", "Hk", "Hv")} | sizes


def entry_names(path):
    data = Path(path).read_bytes()
    manifest = json.loads(data[64:64 + int.from_bytes(data[16:24], "little")])
    return [entry["name"] for entry in manifest["entries"]]


def loaded_cases(args, folders):
    """The chosen cases that all folders have a package of, and the entries these share. Packed
    sequences need lengths that random numbers are not."""
    for case in chosen(args.only):
        paths = [Path(folder) / f"{case.package.name()}.ejk" for folder in folders]
        if case.package.packed or not all(path.exists() for path in paths):
            continue
        shared = set.intersection(*(set(entry_names(path)) for path in paths))
        for entry in sorted(shared & ({"f_fwd", "f_vjp"} if case.package.vjp else {"f"})):
            yield case, entry, paths


def compare(args):
    import torch
    rows = []
    for case, entry, paths in loaded_cases(args, (args.folder, args.new)):
        row = {"table": case.table, "gate": NAMES[case.package.gate], "entry": entry, "shape": case.label()}
        try:
            both = [Loaded(path, entry, sizes_of(case), profile=case.profile) for path in paths]
            if both[0].bytes < 4 * torch.cuda.get_device_properties(0).L2_cache_size:
                continue  # its time would be the cache's
            for one in both:
                one.capture()
            times = [[], []]
            for _ in range(args.rounds):
                for one, list_ in zip(both, times):
                    list_.append(one.time())
                    torch.cuda._sleep(2000000)
            old, new = map(statistics.median, times)
            row |= {"old_ms": round(old, 5), "new_ms": round(new, 5), "ratio": round(new / old, 4)}
        except Exception as error:  # an entry that differs is a result, too
            row["error"] = str(error).splitlines()[0][:200]
        both = None
        torch.cuda.empty_cache()
        report(args, rows, row)


def repeat(args):
    import torch
    rows = []
    for case, entry, paths in loaded_cases(args, (args.folder,)):
        row = {"table": case.table, "gate": NAMES[case.package.gate], "entry": entry, "shape": case.label()}
        try:
            one = Loaded(paths[0], entry, sizes_of(case), profile=case.profile)
            different = 0
            for turn in range(args.rounds):
                for output in one.outputs:  # slots of saved states that no chunk has stay as they are
                    output.view(torch.uint8).fill_(0xa5)
                one.launch()
                bits = [output.view(torch.uint8).clone() for output in one.outputs] if turn == 0 else bits
                different += any(not torch.equal(output.view(torch.uint8), first)
                                 for output, first in zip(one.outputs, bits))
            row |= {"runs": args.rounds, "different": different}
        except Exception as error:
            row["error"] = str(error).splitlines()[0][:200]
        one = bits = None
        torch.cuda.empty_cache()
        report(args, rows, row)
    sys.exit(any(row.get("different") or "error" in row for row in rows))
