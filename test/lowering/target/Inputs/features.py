"""Asks ptxas which architectures have the instructions that the table has a column for.

    features.py EJK_COMPILE PTXAS FOLDER
"""
import os
import sys

sys.dont_write_bytecode = True
from rows import assemble, rows  # noqa: E402

BODIES = {
    "wgmma": "wgmma.fence.sync.aligned;",
    "TMA": """.shared .align 8 .b64 done; .shared .align 16 .b8 tile[64];
              .reg .b64 from; .reg .b32 to, mbarrier;
              mov.u64 from, 0; mov.u32 to, tile; mov.u32 mbarrier, done;
              cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
                [to], [from], 16, [mbarrier];""",
    "clusters": "barrier.cluster.arrive; barrier.cluster.wait;",
    "setmaxnreg": "setmaxnreg.inc.sync.aligned.u32 40;",
}


def main(ejk_compile, ptxas, folder):
    os.makedirs(folder, exist_ok=True)
    asked = 0
    for row in rows(ejk_compile):
        arch = row["--arch"]
        for feature, body in BODIES.items():
            path = os.path.join(folder, f"{arch}-{feature}.ptx")
            with open(path, "w") as file:
                file.write(f".version {row['PTX']}\n.target {arch}\n.address_size 64\n"
                           f".visible .entry f() {{ {body} ret; }}\n")
            problem = assemble(ptxas, arch, path, path + ".cubin")
            if problem is None:
                continue
            asked += 1
            if (problem == "") != (row[feature] == "yes"):
                print(f"{arch}: the table says '{row[feature]}' for {feature}; ptxas: {problem}")
    print(f"asked {asked} times")


main(*sys.argv[1:])
