"""Generated code passes by being right and in no other way, and harms nothing."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from goa_torch.errors import UserError
from goa_torch.sandbox import Limits, Verdict, need_sandbox, run, run_tests

PROMPT = "def f(x):\n    pass\n"
CHECK = "def check(candidate):\n    assert candidate(20) == 400, 'first'\n    assert f(3) == 9\n"
QUICK = Limits(seconds=3)


def _why_not() -> str:
    try:
        need_sandbox()
    except UserError as error:
        return str(error)
    return ""


needs_sandbox = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "the sandbox is there")
pytestmark = needs_sandbox


def verdict(body: str, check: str = CHECK, limits: Limits = QUICK) -> Verdict:
    return run_tests(PROMPT, body, check, "f", limits)


def told(body: str, limits: Limits = QUICK) -> str:
    """What a function says from inside."""
    said = verdict(f"def f(x):\n{body}", "def check(f):\n    raise LookupError(repr(f(0)))\n", limits).reason
    assert said.startswith("LookupError: "), said
    return said.removeprefix("LookupError: ")


def test_a_right_program_passes_and_a_wrong_one_does_not():
    assert verdict("def f(x):\n    return x ** 2\n") == Verdict(True)
    assert verdict("def f(x):\n    return 2 * x\n") == Verdict(False, "AssertionError: first")
    assert verdict("def f(x):\n    return 400\n").reason == "AssertionError:"
    assert "ZeroDivisionError" in verdict("def f(x):\n    return 1 / 0\n").reason
    assert "IndentationError" in verdict("def f(x):\nreturn 1").reason
    assert "KeyError" in verdict("del f").reason


@pytest.mark.parametrize("name, body", {
    "sys.exit(0) before the assertions": "import sys\nsys.exit(0)",
    "os._exit(0) before the assertions": "import os\nos._exit(0)",
    "sys.exit(0) when called": "def f(x):\n    raise SystemExit(0)",
    "os._exit(0) when called": "def f(x):\n    import os\n    os._exit(0)",
    "a signal to itself": "def f(x):\n    import os\n    os.kill(os.getpid(), 9)\n    os.abort()",
    "printing guesses": "import sys, os\nprint('{\"nonce\": true}')\nfor d in range(32):\n    try:\n"
                        "        os.write(d, b'{\"nonce\": \"0\"}\\n{\"confined\": true}\\n')\n"
                        "    except OSError: pass",
    "patching builtins": "import builtins\nbuiltins.AssertionError = Warning\nbuiltins.exec = lambda *a: None\n"
                         "builtins.compile = print\nclass Yes(int):\n    __eq__ = lambda s, o: True\n"
                         "    __hash__ = int.__hash__\nf = lambda x: Yes()",
    "an object that equals everything": "class Yes:\n    __eq__ = lambda self, other: True\nf = lambda x: Yes()",
    "check redefined": "def check(candidate):\n    pass\ndef f(x):\n    globals()['check'] = lambda c: None",
    "replies without questions": "import sys\ndef f(x):\n    channel = sys._getframe(1).f_locals['channel']\n"
                                 "    for i in range(9):\n        channel.write('{\"dict\": [[\"value\", true]]}')",
    "nonsense instead of a reply": "import sys\ndef f(x):\n    sys._getframe(1).f_locals['channel'].write('[[[')",
    "a reply of a gigabyte": "import os, sys\ndef f(x):\n    channel = sys._getframe(1).f_locals['channel']\n"
                             "    while True:\n        os.write(channel.writing, b'1' * 65536)",
    "a reply nested without end": "def f(x):\n    y = []\n    for i in range(10 ** 6): y = [y]\n    return y",
    "a list that holds itself": "def f(x):\n    y = []\n    y.append(y)\n    return y",
    "recursion": "def f(x):\n    return f(x)",
    "exceptions that cannot say what they are": "class E(BaseException):\n    def __str__(self): raise self\n"
                                                "def f(x): raise E",
}.items(), ids=lambda value: value if "\n" not in value and len(value) < 50 else "")
def test_no_trick_passes(name, body):
    started = time.monotonic()
    assert not verdict(body).passed
    assert time.monotonic() - started < 15
    assert verdict("def f(x):\n    return x * x").passed  # and the next program is none the worse


def test_an_infinite_loop_ends_with_the_time_limit():
    started = time.monotonic()
    assert not verdict("while True: pass", limits=Limits(seconds=1)).passed
    assert not verdict("import time\ntime.sleep(60)", limits=Limits(seconds=1)).passed
    assert not verdict("import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
                       "    except (OSError, ValueError): pass\nwhile True: time.sleep(1)", limits=Limits(1)).passed
    assert time.monotonic() - started < 20


def test_assertions_that_never_end_do_not_hang_us():
    assert verdict("f = len", "while True: pass", Limits(seconds=1)).reason == "no result within 1 seconds"


def test_a_fork_bomb_gets_no_second_process_and_nothing_is_left():
    bomb = ("    import os, threading\n    made = 0\n    for i in range(50):\n        try:\n"
            "            if os.fork() == 0:\n                while True: pass\n            made += 1\n"
            "        except OSError: pass\n    try:\n        threading.Thread(target=print).start()\n"
            "        made += 100\n"
            "    except RuntimeError: pass\n    return made")
    assert told(bomb) == "0"
    started = time.monotonic()
    assert not verdict("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
                       limits=Limits(seconds=1, processes=8)).passed
    assert time.monotonic() - started < 15 and not _children_of_us()


def _children_of_us() -> list[str]:
    """Command lines of processes of sandboxes started from here."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(word.endswith("sandbox/worker.py") for word in words):
            found.append(" ".join(words))
    return found


def test_ten_gigabytes_are_refused():
    assert told("    try:\n        return len(bytearray(10 * 1024 ** 3))\n    except MemoryError:\n"
                "        return 'refused'") == "'refused'"
    assert not verdict("x = bytearray(10 * 1024 ** 3)\ndef f(x):\n    return x * x").passed
    files = ("    import os\n    total = 0\n    held = []\n    try:\n        while True:\n"
             "            held.append(os.memfd_create('m'))\n            total += os.write(held[-1], bytes(1 << 22))\n"
             "    except OSError:\n        return total < 1 << 28")
    assert told(files) == "True"


def test_nothing_can_be_written_outside_the_scratch_folder_which_is_gone_afterwards(tmp_path):
    outside = [str(tmp_path / "here"), "/here", "/usr/here", "/etc/here", "/var/tmp/here", "/dev/shm/here",
               f"{sys.base_prefix}/here", str(Path.home() / "here"), __file__, "../../here"]
    tmp_path.chmod(0o777)
    body = (f"    written = []\n    for path in {outside!r}:\n        for mode in 'wa':\n            try:\n"
            "                open(path, mode).write('x')\n                written.append(path)\n"
            "            except OSError: pass\n    open('mine', 'w').write('x' * 100)\n    import os\n"
            "    return written, os.getcwd(), os.path.getsize('mine'), sorted(os.listdir('/'))")
    said = told(body)
    assert said.startswith("([], '/tmp', 100, [") and "home" not in said and "etc" not in said.replace("'etc'", "")
    assert not (tmp_path / "here").exists() and not Path(tempfile.gettempdir(), "mine").exists()
    assert told("    import os\n    return os.listdir('.')") == "[]"


def test_files_and_open_files_are_limited():
    assert told("    try:\n        with open('big', 'wb') as file:\n            for i in range(1000):\n"
                "                file.write(bytes(1 << 20))\n    except OSError:\n        import os\n"
                "        return os.path.getsize('big') <= 1 << 22") == "True"
    assert told("    total = 0\n    try:\n        for i in range(1000):\n            with open(str(i), 'wb') as file:\n"
                "                total += file.write(bytes(1 << 20))\n    except OSError:\n"
                "        return total <= 1 << 24") == "True"
    assert told("    held = []\n    try:\n        while True: held.append(open('/dev/null'))\n    except OSError:\n"
                "        return len(held) < 32") == "True"


def test_the_environment_is_empty(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-ours")
    body = ("    import os\n    found = []\n    for path in ('/proc/self/environ', '/proc/1/environ'):\n"
            "        try: found.append(open(path).read())\n        except OSError: pass\n"
            "    return {**os.environ, 'more': found}")
    assert told(body) == "{'OPENBLAS_NUM_THREADS': '1', 'more': []}"


def test_no_socket_leads_anywhere():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        body = (f"    import socket\n    try:\n        socket.create_connection(('127.0.0.1', {port}), 1)\n"
                "        return 'connected'\n    except OSError as error:\n        return 'unreachable'")
        assert told(body) == "'unreachable'"
    body = ("    import socket\n    try:\n        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', "
            "('8.8.8.8', 53))\n        return 'sent'\n    except OSError: return 'unreachable'")
    assert told(body) == "'unreachable'"


def test_sockets_of_every_kind_and_tracing_are_refused():
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("system calls are filtered on x86_64 and aarch64 alone")
    body = ("    import ctypes, socket\n    made = []\n    for family in (1, 2, 10, 16, 17, 40):\n"
            "        for kind in (1, 2, 3):\n            try:\n                socket.socket(family, kind)\n"
            "                made.append((family, kind))\n            except PermissionError: pass\n"
            "            except OSError as error: made.append((family, kind, error.errno))\n"
            "    libc = ctypes.CDLL(None, use_errno=True)\n    traced = libc.ptrace(0, 0, 0, 0)\n"
            "    shared = libc.shmget(0, ctypes.c_size_t(1 << 34), 0o1600)\n    return made, traced, shared")
    assert told(body) == "([], -1, -1)"


def test_it_is_nobody_alone_in_its_world_and_cannot_rise():
    body = ("    import os, ctypes\n    libc = ctypes.CDLL(None, use_errno=True)\n    seen = []\n"
            "    for pid in range(2, 40000):\n        try:\n            os.kill(pid, 0)\n            seen.append(pid)\n"
            "        except ProcessLookupError: pass\n        except PermissionError: seen.append(pid)\n"
            "    risen = []\n    for how in (os.setuid, os.setgid):\n        try:\n            how(0)\n"
            "            risen.append(how.__name__)\n        except OSError: pass\n"
            "    flags = (0x10000000, 0x10020000, 0x00020000, 0x40000000)\n"
            "    risen += [flag for flag in flags if libc.unshare(flag) == 0]\n"
            "    mounted = libc.mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0\n"
            "    try:\n        os.chroot('/tmp')\n        risen.append('chroot')\n    except OSError: pass\n"
            "    return os.getpid(), seen, risen, mounted, os.getuid() == 0")
    assert told(body) == "(1, [], [], False, False)"


def test_neither_assertions_nor_nonce_are_in_the_candidates_memory(monkeypatch):
    monkeypatch.setattr(run.secrets, "token_hex", lambda n: "n0nce" + "ab" * 13)
    search = ("    import gc, sys\n    want = ['ecn0n', 'snoitressa eht fo rekram', 'dnuof eb ot si siht']\n"
              "    frames, frame = [], sys._getframe()\n    while frame is not None:\n        frames.append(frame)\n"
              "        frame = frame.f_back\n"
              "    held = [repr(o)[:100000] for o in gc.get_objects() if isinstance(o, (dict, list, tuple))]\n"
              "    text = repr([(f.f_locals, f.f_globals) for f in frames]) + ''.join(held)\n"
              "    return [w[::-1] for w in want if w[::-1] in text]")
    check = "def check(f):\n    # marker of the assertions\n    raise LookupError(repr(f(0)))\n"
    said = verdict(f"there = 'this is to be found'\ndef f(x):\n{search}", check).reason
    assert said == "LookupError: ['this is to be found']"


def test_what_it_is_compared_with_is_out_of_its_reach():
    check = "def check(f):\n    values = [3, 1, 2]\n    assert f(values) == sorted(values)\n"
    assert not verdict("def f(x):\n    x.clear()\n    return []", check).passed
    assert verdict("def f(x):\n    x.sort()\n    return x", check).passed


def test_it_may_import_what_is_installed():
    pytest.importorskip("numpy")
    check = "def check(f):\n    assert f([3], d={1: 2}) == (1.5, {2}, b'x', None)\n"
    assert verdict("import numpy\ndef f(x, d):\n    return numpy.float64(1.5), {2}, b'x', None", check, Limits()).passed
    assert verdict("def f(x):\n    raise ValueError('no')", "def check(f):\n    try:\n        f(1)\n"
                   "    except ValueError as e:\n        assert str(e) == 'no'\n    else:\n        assert 0\n").passed
    assert verdict("def f(x):\n    yield from range(3)", "def check(f): assert list(f(0)) == [0, 1, 2]").passed


def test_draws_and_hashes_are_the_same_every_time():
    body = "    import random\n    return random.random(), list({'a', 'b', 'c', 'd', 'e'}), hash('x')"
    assert told(body) == told(body)


def test_limits_that_make_no_sense_are_one_line():
    with pytest.raises(UserError, match="sandbox: seconds must be at least 0.1, not 0"):
        Limits(seconds=0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("caps, works", [("-sys_admin", True), ("-sys_admin,-setuid,-setgid", False)])
def test_root_without_privileges_is_confined_as_nobody_or_refused_in_one_line(caps, works):
    if not Path("/usr/bin/python3").exists() or not Path("/usr/bin/setpriv").exists():
        pytest.skip("needs setpriv and an interpreter that everybody may read")
    code = ("from goa_torch.sandbox import need_sandbox\ntry:\n    need_sandbox()\n    print('works')\n"
            "except ValueError as e:\n    print(str(e).count('\\n'), e)")
    done = subprocess.run(["/usr/bin/setpriv", f"--bounding-set={caps}", "/usr/bin/python3", "-B", "-c", code],
                          env={"PYTHONPATH": str(Path(__file__).parents[2])}, capture_output=True, text=True,
                          timeout=60)
    if "requires a different Python" in done.stderr or "ModuleNotFoundError" in done.stderr:
        pytest.skip("the system's interpreter cannot load the package")
    wanted = "works" if works else "0 generated code runs only in a sandbox of Linux namespaces, and here root may"
    assert done.stdout.startswith(wanted), (done.stdout, done.stderr)
