"""The receiver: what an agent's command line runs for each of its events, as `python3 -I -S receiver.py --agent NAME`.

It keeps the event in the spool, pokes the daemon and leaves with 0, whatever happens: nothing here may change what the
agent does. A script is compiled at every start, so this one only fetches the compiled `intake.py` beside it. It writes
no compiled file itself: on a disk that is full, or over a quota, Python leaves half of one and goes by it ever after.
"""

import posix
import sys

if __name__ == "__main__":
    try:
        from _frozen_importlib_external import SourceFileLoader

        sys.dont_write_bytecode = True
        loader = SourceFileLoader("intake", __file__[: -len("receiver.py")] + "intake.py")
        try:
            code = loader.get_code("intake")
        except Exception:  # half a compiled file
            code = loader.source_to_code(loader.get_data(loader.path), loader.path)
        intake = {"__name__": "intake"}
        exec(code, intake)  # type: ignore[arg-type]  # noqa: S102
        intake["run"](sys.argv[1:])  # type: ignore[operator]
    finally:
        posix._exit(0)
