"""The receiver: the program that an agent CLI runs for each event, as `python3 -I -S receiver.py --agent NAME`.

It writes the event to the spool, wakes the daemon and always exits with 0, so it never changes what the agent does.
Python compiles a script at every start, so this one only loads the compiled `intake.py` next to it. It writes no
compiled file itself: on a full disk, or over a quota, Python would leave half a file and use it from then on.
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
        except Exception:  # an incomplete compiled file
            code = loader.source_to_code(loader.get_data(loader.path), loader.path)
        intake = {"__name__": "intake"}
        exec(code, intake)  # type: ignore[arg-type]  # noqa: S102
        intake["run"](sys.argv[1:])  # type: ignore[operator]
    finally:
        posix._exit(0)
