"""Takes in one hook event: reads it to its end, writes it to the spool, wakes the daemon; in a few milliseconds.

Only modules that every interpreter has already loaded are used (and `_socket`, if there is a daemon to wake), so that a
hook costs the agent hardly more than the start of Python. Paths are bytes. Records are named and written in the same
way as in `holdfast.ingress.spool`.
"""

import _signal  # type: ignore[import-not-found]
import posix
import sys
import time

READ_S = 2.0
WRITE_S = 3.0
RETRY_S = 1.0
BODY_MAX = 1920 * 1024  # with its header a record stays below the importer's limit
TEXT_MAX = 4096
NAME_MAX = 200
LOG_MAX = 256 * 1024

# The most durable first. They do not depend on the environment, because the daemon must find them too.
FALLBACKS = (b"/var/tmp/holdfast-%d", b"/tmp/holdfast-%d", b"/run/user/%d/holdfast")

_CHUNK = 65536
_STOP_SIGNALS = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
_FOLDER = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC
_NEW = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
_LOG = posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC


def run(arguments: list[str]) -> None:
    """Take in the event that this process was started for. Never raises, and prints nothing."""
    posix.umask(0o077)
    agent, event, given, payload = parse(arguments)
    root = given or find_root(posix.environ, sys.platform)
    names = f'"agent":{quote(agent[:NAME_MAX])},"event":{quote(event and event[:NAME_MAX])}'
    try:
        body, size, cut = read() if payload is None else (payload[:BODY_MAX], len(payload), None)
        for number in _STOP_SIGNALS:  # from here on the process ends soon by itself
            _signal.signal(number, _signal.SIG_IGN)
        if size > BODY_MAX:
            cut = cut or "size"
        header = _header(names, size if cut else None, cut, "stdin" if payload is None else "argv")
        keep(root, name_now(), header + body, names)
        if root is not None:
            wake(root + b"/holdfast.sock")
    except BaseException as error:
        note(root, names, type(error).__name__, None)


def parse(arguments: list[str]) -> tuple[str, str | None, bytes | None, bytes | None]:
    """Agent, event, home and payload. Unknown arguments are ignored: a wrong one must not lose an event.

    >>> parse(["--agent", "some-cli", "notify", '{"type": "x"}'])
    ('some-cli', 'notify', None, b'{"type": "x"}')
    """
    agent, home = "unknown", None
    words: list[str] = []
    rest = iter(arguments)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in ("--agent", "--home"):
            value = value if equals else next(rest, "")
            if option == "--home":
                home = _bytes(value) or None
            elif value:
                agent = value
        elif word[:1] != "-":
            words.append(word)
    payload = words.pop() if len(words) > 1 or (words and words[0][:1] in "{[") else None
    return agent, words[0] if words else None, home, None if payload is None else _bytes(payload)


def read() -> tuple[bytes, int, str | None]:
    """The bytes of standard input, their full size, and what cut them short: time, a signal or an error.

    A signal closes the input, which ends a blocked read; the bytes read so far are kept.
    """
    cut: list[str] = []

    def stop(number: int, frame: object) -> None:
        cut.append("time" if number == _signal.SIGALRM else "signal")
        try:
            posix.close(0)
        except OSError:
            pass  # closed already

    for number in (*_STOP_SIGNALS, _signal.SIGALRM):
        _signal.signal(number, stop)
    _signal.setitimer(_signal.ITIMER_REAL, READ_S)
    chunks, kept, size = [], 0, 0
    try:
        while chunk := posix.read(0, _CHUNK):
            size += len(chunk)
            if kept < BODY_MAX:
                chunks.append(chunk[: BODY_MAX - kept])
                kept += len(chunks[-1])
    except OSError:
        cut.append("error")
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    return b"".join(chunks), size, cut[0] if cut else None


def name_now() -> str:
    """The name of a record that is complete now. A receiver that starts after this one ended gets a later name."""
    return f"{boot_id()[:16].lower()}-{_boot_ns():020d}-{posix.getpid()}-{posix.urandom(4).hex()}.evt"


def keep(root: bytes | None, name: str, record: bytes, names: str) -> None:
    """Write the record into the home's spool or, if that fails, into the first fallback folder that accepts it."""
    _signal.signal(_signal.SIGALRM, _abort_write)
    _signal.setitimer(_signal.ITIMER_REAL, WRITE_S, RETRY_S)
    why = "the home folder is unknown"
    if root is not None:
        try:
            return _write(_open_spool(root + b"/spool"), name, record)
        except (OSError, RecursionError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
    for folder in fallbacks(root):
        try:
            _write(_open_fallback(*folder), name, record)
        except OSError:
            continue
        return note(root, names, why, b"/".join(folder))
    return note(root, names, why, None)


def find_root(environ: dict[bytes, bytes], platform: str) -> bytes | None:
    """The home folder, found in the same way as in `holdfast.home.find_home`; None if it cannot be determined."""
    given = environ.get(b"HOLDFAST_HOME")
    if given and given[:1] != b"~":
        return given
    state = environ.get(b"XDG_STATE_HOME")
    if state and not given and platform != "darwin":
        return state + b"/holdfast"
    user, slash, rest = (given or b"~").partition(b"/")
    home = _user_home(environ, user[1:])
    if home is None:
        return None
    if given:
        return home + slash + rest or b"/"
    return home + (b"/Library/Application Support/holdfast" if platform == "darwin" else b"/.local/state/holdfast")


def fallbacks(root: bytes | None) -> list[tuple[bytes, bytes]]:
    """The fallback folders: for each, a parent folder of this user and the name of this home's folder in it."""
    return [(folder % posix.geteuid(), _key(root)) for folder in FALLBACKS]


def note(root: bytes | None, names: str, why: str, kept: bytes | None) -> None:
    """Append a line to the log for `holdfast status`: in the home if it is writable, else in a fallback folder."""
    line = f'{{"at":{_now_ms()},{names},"why":{quote(why)},"kept":{quote(kept)}}}\n'
    for place in [None, *fallbacks(root)]:
        try:
            if place is not None:
                folder = _open_fallback(*place)
            elif root is not None:
                folder = posix.open(root, _FOLDER)
            else:
                continue
            return _append(folder, line.encode())
        except OSError:
            continue
    return None


def wake(path: bytes) -> None:
    """Wake the daemon, if one is running, to import the record."""
    try:
        posix.stat(path)
        from _socket import AF_UNIX, SOCK_DGRAM, socket

        sender = socket(AF_UNIX, SOCK_DGRAM)
        try:
            sender.setblocking(False)
            sender.sendto(b"spool", path)
        finally:
            sender.close()
    except OSError:
        pass  # the daemon polls every second anyway


def quote(text: str | bytes | None) -> str:
    r"""A text as an ASCII JSON string.

    >>> quote('a "b" \n é 🙂')
    '"a \\"b\\" \\u000a \\u00e9 \\ud83d\\ude42"'
    """
    if text is None:
        return "null"
    text = (text.decode("utf-8", "replace") if isinstance(text, bytes) else text)[:TEXT_MAX]
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def boot_id() -> str:
    try:
        file = posix.open("/proc/sys/kernel/random/boot_id", posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            return posix.read(file, 64).decode().strip().replace("-", "")
        finally:
            posix.close(file)
    except OSError:
        return f"boot{round((time.time() - _boot_ns() / 1e9) / 10)}"


def _header(names: str, size: int | None, cut: str | None, via: str) -> bytes:
    now_ms = _now_ms()
    tmux = (posix.environ.get(b"TMUX") or b"").rpartition(b",")[0]
    tmux, _, server = tmux.rpartition(b",")  # socket, process id of the server, number of the session
    server = server if len(server) < 10 else b""
    try:
        cwd = posix.getcwdb()
    except OSError:
        cwd = None  # the folder is gone
    return (
        f'{{"v":1,"kind":"hook","id":"evt_{now_ms:012x}{posix.urandom(10).hex()}",{names},"received_at":{now_ms},'
        f'"cwd":{quote(cwd)},"pane":{quote(posix.environ.get(b"TMUX_PANE") or None)},'
        f'"tmux":{quote(tmux or None)},"tmux_server":{int(server) if server.isdigit() else "null"},'
        f'"pid":{posix.getpid()},"ppid":{posix.getppid()},'
        f'"truncated":{"null" if size is None else size},"cut":{quote(cut)},"via":"{via}"}}\n'
    ).encode()


def _abort_write(number: int, frame: object) -> None:
    """Interrupt a write to a disk that does not respond: it must not block the agent, and another disk may work."""
    raise TimeoutError(110, "the disk does not respond")


def _open_spool(path: bytes) -> int:
    try:
        return posix.open(path, _FOLDER)
    except FileNotFoundError:
        _make(path)
        return posix.open(path, _FOLDER)


def _make(path: bytes) -> None:
    """Make a folder and its parents durably, each accessible to its owner only."""
    above = path.rstrip(b"/").rpartition(b"/")[0] or (b"/" if path[:1] == b"/" else b".")
    try:
        posix.stat(above)
    except FileNotFoundError:
        _make(above)
    try:
        posix.mkdir(path, 0o700)
    except FileExistsError:
        return  # another receiver made it
    folder = posix.open(above, _FOLDER)
    posix.fsync(folder)
    posix.close(folder)


def _open_fallback(parent: bytes, key: bytes) -> int:
    """Open this home's folder in a fallback folder. Others can write to its parent, so owner and mode are checked."""
    try:
        posix.mkdir(parent, 0o700)
    except FileExistsError:
        pass
    outer = posix.open(parent, _FOLDER | posix.O_NOFOLLOW)
    try:
        found = posix.fstat(outer)
        if found.st_uid != posix.geteuid() or found.st_mode & 0o077:
            raise PermissionError
        try:
            posix.mkdir(key, 0o700, dir_fd=outer)
            posix.fsync(outer)
        except FileExistsError:
            pass
        return posix.open(key, _FOLDER | posix.O_NOFOLLOW, dir_fd=outer)
    finally:
        posix.close(outer)


def _write(folder: int, name: str, record: bytes) -> None:
    """Create exclusively, write, sync, rename, sync the folder: then the event is accepted."""
    unfinished = "." + name
    try:
        file = posix.open(unfinished, _NEW, 0o600, dir_fd=folder)
        try:
            while record:
                record = record[posix.write(file, record) :]
            posix.fsync(file)
            posix.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            posix.unlink(unfinished, dir_fd=folder)
            raise
        finally:
            posix.close(file)
        posix.fsync(folder)
    finally:
        posix.close(folder)


def _append(folder: int, line: bytes) -> None:
    """Append a line to the log. A log over `LOG_MAX` bytes is renamed and a new one is started."""
    try:
        file = posix.open("receiver.log", _LOG, 0o600, dir_fd=folder)
        try:
            if posix.fstat(file).st_size > LOG_MAX:
                posix.rename("receiver.log", "receiver.log.old", src_dir_fd=folder, dst_dir_fd=folder)
                posix.close(file)
                file = posix.open("receiver.log", _LOG, 0o600, dir_fd=folder)
            if posix.write(file, line) < len(line):
                raise OSError
        finally:
            posix.close(file)
    finally:
        posix.close(folder)


def _user_home(environ: dict[bytes, bytes], user: bytes) -> bytes | None:
    if not user and b"HOME" in environ:
        return environ[b"HOME"].rstrip(b"/")
    try:
        import pwd

        found = pwd.getpwnam(user.decode()) if user else pwd.getpwuid(posix.getuid())
    except (ImportError, KeyError, ValueError):
        return None
    return _bytes(found.pw_dir).rstrip(b"/")


def _key(root: bytes | None) -> bytes:
    """The name of a home's folder in a fallback folder: its path with escaped slashes."""
    if root is not None and root[:1] != b"/":
        try:
            root = posix.getcwdb() + b"/" + root
        except OSError:
            root = None  # it is relative to a folder that is gone
    if root is None:
        return b"unknown"
    parts = [part.replace(b"%", b"%25") for part in root.split(b"/") if part not in (b"", b".")]
    return b"%2F".join(parts)[-NAME_MAX:] or b"%2F"


def _escape(letter: str) -> str:
    code = ord(letter)
    if letter in '"\\':
        return "\\" + letter
    if 0x20 <= code < 0x7F:
        return letter
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{0xFFFD if 0xD800 <= code < 0xE000 else code:04x}"


def _bytes(word: str) -> bytes:
    return word.encode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


def _boot_ns() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", None) or time.CLOCK_MONOTONIC)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
