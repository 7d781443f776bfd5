"""How many labels does choosing save?   python benchmarks/labels-saved run | summary

run       measure what is missing, seed by seed over all sets and methods; stop and start it as you like
summary   read what is there, write the result file and the table
"""

import argparse
import sys
from pathlib import Path

from protocol import HERE, Protocol

ROOT = HERE.parent.parent


def main() -> int:
    """What the command line says."""
    parser = argparse.ArgumentParser("labels-saved", description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["run", "summary"])
    parser.add_argument("--models", nargs="+", default=(), help="only these; all of the protocol otherwise")
    parser.add_argument("--sets", nargs="+", default=())
    parser.add_argument("--methods", nargs="+", default=(), help="peers are run where they are named here")
    parser.add_argument("--seeds", nargs="+", type=int, default=())
    parser.add_argument("--part", default="1/1", help="2/3: the second third of the units, for a process of its own")
    parser.add_argument("--protocol", type=Path, default=HERE / "protocol.toml")
    parser.add_argument("--folder", type=Path, default=ROOT / "results" / "tmp" / "labels-saved", help="of the units")
    parser.add_argument("--result", type=Path, default=ROOT / "results" / "labels-saved.json", help="of the summary")
    parser.add_argument("--table", type=Path, default=HERE / "table.md", help="of the summary")
    asked = parser.parse_args()
    try:
        protocol = Protocol.read(asked.protocol)
        units = list(protocol.units(asked.models, asked.sets, asked.methods, asked.seeds))
        if asked.what == "summary":
            from savings_table import write_summary

            named = {one: getattr(asked, one) for one in ("models", "sets", "methods", "seeds")}
            chosen = " ".join(f"--{one} {' '.join(map(str, some))}" for one, some in named.items() if some)
            command = f"python benchmarks/labels-saved summary {chosen}".strip()
            print(write_summary(protocol, units, asked.folder, asked.result, asked.table, command))
            return 0
        from units import write_units

        part, parts = map(int, asked.part.split("/"))
        mine, failed = units[part - 1 :: parts], 0
        for count, (unit, outcome) in enumerate(write_units(mine, protocol, asked.folder), 1):
            failed += outcome not in ("run", "there")
            if outcome != "there":
                name = f"{unit.model} {unit.data} {unit.method} {unit.seed}"
                print(f"{count} of {len(mine)}: {name}: {outcome}", flush=True)
        return int(failed > 0)
    except ValueError as reason:
        print(reason, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
