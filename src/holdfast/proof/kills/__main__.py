"""`python -m holdfast.proof.kills`: run parts of the proof with chosen sizes. Exit code 1: a promise was broken.

Without any size option it runs what `holdfast prove` runs; with some, only the parts they name.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from pathlib import Path

from holdfast.domain.errors import HoldfastError
from holdfast.proof.kills.artifacts import trim
from holdfast.proof.kills.disruptions import KINDS
from holdfast.proof.kills.faults import FAULTS, POSTGRES_FAULTS
from holdfast.proof.kills.parallel import ProofOutput
from holdfast.proof.kills.processes import Stuck
from holdfast.proof.kills.prove import SIZES, ProofRequest, Size, check_request, draw_seed, prove, work_folder

STOPPED = 130


def run(request: ProofRequest, as_json: bool) -> int:
    """Run the proof and print the result. Progress goes to stderr, and nowhere with `as_json`."""
    check_request(request)
    signal.signal(signal.SIGTERM, _interrupt)  # so that the processes of the proof are ended as well
    progress = ProofOutput(quiet=as_json)
    progress(f"Seed {request.seed}.")
    try:
        with work_folder(request) as root:
            try:
                proof = prove(request, root, progress)
            except Exception as error:
                return _abort(request, error, str(root), as_json)
    except KeyboardInterrupt:
        progress("Stopped. All processes and files of the proof are removed.")
        return STOPPED
    kept = {} if proof.ok else {"kept": str(root), "kept_bytes": trim(root)}
    print(json.dumps({**proof.as_dict(), **kept}, indent=2) if as_json else proof.table(), flush=True)
    if not proof.ok:
        lines = "\n".join(f"  {line}" for line in proof.violations)
        ProofOutput()(f"PROMISES BROKEN (seed {request.seed}):\n{lines}\nRecords and logs are kept in {root}")
        return 1
    progress("Every accepted event is accounted for.")
    shutil.rmtree(root)
    return 0


def _abort(request: ProofRequest, error: Exception, root: str, as_json: bool) -> int:
    trim(Path(root))
    what = str(error) if isinstance(error, Stuck | HoldfastError) else repr(error)
    print(f"The proof was aborted (seed {request.seed}): {what}\nRecords and logs are kept in {root}", file=sys.stderr)
    if as_json:
        print(json.dumps({"ok": False, "seed": request.seed, "error": what, "kept": root}))
    return 1


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _size(given: argparse.Namespace) -> Size:
    """Only the parts that were named; the default size if none was."""
    numbers = {
        "schedules": given.schedules, "mutant_seeds": given.mutants, "images": given.images, "kills": given.kills,
        "rounds": given.rounds, "writer_s": given.writers, "publishing_kills": given.publishing,
        "leader_losses": given.leaders, "messages": given.messages,
    }  # fmt: skip
    named = {name: value for name, value in numbers.items() if value is not None}
    return Size(**named) if named else SIZES["default"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m holdfast.proof.kills", description=__doc__)
    parser.add_argument("--schedules", type=_positive, help="simulated schedules")
    parser.add_argument(
        "--mutants", type=_positive, metavar="SEEDS", help="run the known bugs, at most SEEDS schedules for each"
    )
    parser.add_argument("--images", type=_positive, help="disk images after power cuts")
    parser.add_argument("--kills", type=_positive, help="kills of the daemon on SQLite")
    parser.add_argument("--rounds", type=_positive, help="disruptions of three daemons on PostgreSQL")
    parser.add_argument(
        "--writers", type=_positive, metavar="SECONDS", help="how long eight concurrent writers publish"
    )
    parser.add_argument("--publishing", type=_positive, metavar="KILLS", help="kills of daemon, Redis and NATS")
    parser.add_argument("--leaders", type=_positive, metavar="LOSSES", help="losses of a JetStream cluster's leader")
    parser.add_argument("--messages", type=_positive, help="kills around deliveries of messages to agents, per store")
    parser.add_argument("--only", choices=sorted(KINDS), help="only this kind of disruption on PostgreSQL")
    parser.add_argument("--server", metavar="VERSION", help="PostgreSQL version to start (default: the newest found)")
    parser.add_argument("--seed", type=int, help="seed of an earlier run, to repeat its random choices")
    parser.add_argument("--store", help="run on this PostgreSQL, or on the disk of this SQLite file")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--fault", choices=sorted({**FAULTS, **POSTGRES_FAULTS}), help="inject a known fault: the proof must then fail"
    )  # fmt: skip
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else draw_seed()
    try:
        return run(ProofRequest(_size(given), seed, given.store, given.fault, given.only, given.server), given.json)
    except HoldfastError as error:
        parser.error(error.message)


if __name__ == "__main__":
    sys.exit(main())
