"""What hostile code tries, and how it must end: (name, code, statuses, what it prints).

A case that prints says "held" where a wall held, and "BREACH" where none did.
"""

from dataclasses import dataclass

from warren.host_services.cells import CellStatus

HELPERS = """
import ctypes, mmap, os, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def refused(what, *arguments, **keywords):
    try:
        what(*arguments, **keywords)
    except (OSError, ValueError) as error:
        return True
    print("BREACH", what, arguments)
    return False
def failed(result):
    if result >= 0:
        print("BREACH")
    return result < 0
def held(*outcomes):
    print("held" if outcomes and all(outcomes) else "BREACH")
kept = 41
"""
OK, ERROR, DIED, LOST = CellStatus.OK, CellStatus.ERROR, CellStatus.DIED, CellStatus.LOST
TIMEOUT, MEMORY = CellStatus.TIMEOUT, CellStatus.MEMORY
ENDED = (ERROR, DIED, MEMORY, TIMEOUT, CellStatus.PROCESSES, LOST)


@dataclass(frozen=True)
class Case:
    name: str
    code: str
    statuses: tuple[CellStatus, ...] = (OK,)
    prints_held: bool = True

    @property
    def limit_s(self) -> float:
        """Long enough for a slow machine, unless the case lasts as long as it may."""
        return 1.0 if TIMEOUT in self.statuses else 240.0


def _ends(name: str, code: str, *statuses: CellStatus) -> Case:
    return Case(name, code, statuses or ENDED, prints_held=False)


READING = [
    Case(
        "files of the host",
        "held(*(refused(open, p) for p in ('/etc/passwd', '/etc/shadow', '/root/.bashrc',"
        " '/var/log/syslog', '/proc/kcore', '/sys/kernel/notes', '/dev/mem', '/dev/sda')))",
    ),
    Case(
        "folders of the host",
        "held(*(refused(os.listdir, p) for p in ('/home', '/root', '/var', '/work', '/sys')))",
    ),
    Case(
        "read-only places",
        "held(*(refused(open, p, 'w') for p in ('/usr/x', '/etc/x', '/x', '/opt/x', '/lib/x',"
        " '/proc/sys/kernel/hostname', '/proc/sysrq-trigger')))",
    ),
    Case(
        "the supervisor by /proc",
        "parents = [1, os.getppid()]\n"
        "held(*(refused(open, f'/proc/{p}/{n}', m) for p in parents"
        " for n, m in (('mem', 'r+b'), ('environ', 'rb'), ('maps', 'rb'))),"
        "*(refused(os.listdir, f'/proc/{p}/fd') for p in parents if p == 1),"
        "*(refused(os.listdir, f'/proc/{p}/root/home') for p in parents))",
    ),
    Case(
        "secrets of the environment",
        "seen = [repr(os.environ).encode()]\n"
        "try:\n"
        "    for p in os.listdir('/proc'):\n"
        "        if p.isdigit() and os.access(f'/proc/{p}/environ', os.R_OK):\n"
        "            seen.append(open(f'/proc/{p}/environ', 'rb').read())\n"
        "except OSError: pass\n"
        "held(b'WARREN_SECRET' not in b''.join(seen))",
    ),
]
NETWORK = [
    Case(
        "sockets of every family",
        "held(*(refused(socket.socket, f, t) for f in range(64) if f != socket.AF_UNIX"
        " for t in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)))",
    ),
    Case(
        "local sockets of the host",
        "def connect(address):\n"
        "    with socket.socket(socket.AF_UNIX) as s: s.connect(address)\n"
        "held(*(refused(connect, a) for a in ('/run/dbus/system_bus_socket', '/var/run/docker.sock',"
        " '\\0warren-abuse')))",
    ),
    Case(
        "connecting by name",
        "held(refused(socket.create_connection, ('127.0.0.1', 5672), 1),"
        " refused(socket.create_connection, ('example.com', 80), 1))",
    ),
]
KERNEL = [
    Case(
        "system calls of administrators",
        "NULL = None\n"
        "held(failed(libc.mount(b'x', b'/tmp', b'tmpfs', 0, NULL)), failed(libc.umount2(b'/tmp', 0)),"
        " failed(libc.unshare(0x10000000)), failed(libc.unshare(0x20000)), failed(libc.setns(0, 0)),"
        " failed(libc.ptrace(16, os.getppid(), 0, 0)), failed(libc.chroot(b'/tmp')),"
        " failed(libc.pivot_root(b'/tmp', b'/tmp')) if hasattr(libc, 'pivot_root') else True,"
        " failed(libc.swapon(b'x', 0)), failed(libc.reboot(0)), failed(libc.personality(0x40000)),"
        " failed(libc.process_vm_readv(os.getppid(), NULL, 0, NULL, 0, 0)),"
        " failed(libc.sethostname(b'x', 1)), failed(libc.clock_settime(0, ctypes.create_string_buffer(16))),"
        " failed(libc.keyctl(0)) if hasattr(libc, 'keyctl') else True)",
    ),
    Case(
        "system calls by number",
        "numbers = {'x86_64': dict(bpf=321, io_uring=425, userfaultfd=323, perf=298, memfd=319,"
        " keyctl=250, add_key=248, shmget=29, seccomp=317, kexec=246, init_module=175, mount_api=430),"
        " 'aarch64': dict(bpf=280, io_uring=425, userfaultfd=282, perf=241, memfd=279, keyctl=219,"
        " add_key=217, shmget=194, seccomp=277, kexec=104, init_module=105, mount_api=430)}\n"
        "held(*(failed(libc.syscall(n, 0, 0, 0, 0, 0, 0)) for n in numbers[os.uname().machine].values()))",
    ),
    Case(
        "new namespaces by clone",
        "clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]\n"
        "held(*(failed(libc.syscall(clone, flag | 17, 0, 0, 0, 0)) for flag in"
        " (0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)),"
        " failed(libc.syscall(435, 0, 0)))",
    ),
    Case(
        "more rights",
        "import resource\n"
        "held(refused(os.setuid, 0), refused(os.setgid, 0), refused(os.chown, '/usr', 0, 0),"
        " refused(os.nice, -5), refused(os.mknod, '/tmp/d', 0o20666, 0x101),"
        " refused(resource.setrlimit, resource.RLIMIT_AS, (1 << 40, 1 << 40)),"
        " refused(resource.setrlimit, resource.RLIMIT_NPROC, (1 << 20, 1 << 20)), os.getuid() != 0)",
    ),
    Case(
        "descriptors of the host",
        "kinds = set()\n"
        "for fd in range(4, 256):\n"
        "    try: kinds.add(fd); os.fstat(fd)\n"
        "    except OSError: kinds.discard(fd)\n"
        "held(not kinds)",
    ),
    Case(
        "a terminal's input",
        "import fcntl\n"
        "held(refused(os.open, '/dev/tty', os.O_RDWR), refused(fcntl.ioctl, 0, 0x5412, b'x'))",
    ),
    Case(
        "limits and places of others",
        "import resource\n"
        "other, core = os.getppid(), resource.RLIMIT_CORE\n"
        "held(refused(resource.prlimit, other, core, (0, 0)), refused(resource.prlimit, 1, core),"
        " refused(os.sched_setaffinity, other, {0}),"
        " refused(os.sched_setscheduler, other, os.SCHED_BATCH, os.sched_param(0)))",
    ),
    Case(
        "signals to others",
        "own = os.getpid()\n"
        "for n in (9, 19, 15, 2):\n"
        "    for p in (1, os.getpgid(0) + 1):\n"
        "        try: os.kill(p, n)\n"
        "        except OSError: pass\n"
        "held(True)",
    ),
]
RESOURCES = [
    _ends("a loop", "while True: pass", TIMEOUT),
    _ends(
        "a loop that ignores signals",
        "for n in range(1, 65):\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "while True: pass",
        TIMEOUT,
    ),
    _ends("sleep", "time.sleep(1000)", TIMEOUT),
    _ends("stopping itself", "os.kill(os.getpid(), signal.SIGSTOP)", TIMEOUT),
    _ends("memory at once", "b = bytearray(4 << 30)", ERROR, MEMORY),
    _ends("memory in pieces", "b = [bytearray(8 << 20) for _ in range(1000)]", ERROR, MEMORY),
    _ends(
        "memory of many processes",
        "for _ in range(12):\n"
        "    if os.fork() == 0:\n"
        "        b = bytearray(100 << 20)\n"
        "        time.sleep(1000)\n"
        "time.sleep(1000)",
        MEMORY,
        CellStatus.PROCESSES,
        ERROR,
    ),
    _ends("a fork bomb", "while True:\n    try: os.fork()\n    except OSError: pass"),
    _ends(
        "a fork bomb of daemons",
        "while True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass",
    ),
    _ends(
        "a thread bomb",
        "import threading\nwhile True: threading.Thread(target=time.sleep, args=(1000,)).start()",
    ),
    _ends("a deep recursion", "sys.setrecursionlimit(10**9)\ndef f(): f()\nf()"),
    _ends("a broken pointer", "ctypes.string_at(0)", DIED),
    _ends("leaving at once", "os._exit(0)", DIED),
    _ends("abort", "os.abort()", DIED),
    _ends("a flood of output", "while True: os.write(1, b'x' * 65536)", CellStatus.OUTPUT),
    Case(
        "open files",
        "files = []\ntry:\n    while True: files.append(os.dup(0))\nexcept OSError: held(len(files) < 100)\nfor f in files: os.close(f)",
    ),
    Case("a large file of nothing", "held(refused(os.truncate, os.open('/dev/null', 1), 1 << 50))"),
]
DISK = [
    Case(
        "files beside its own",
        "held(*(refused(open, p, 'w') for p in ('/x', '/dev/x', '/usr/x', '/opt/x')),"
        " refused(os.mkdir, '/dev/abuse'))",
    ),
    Case(
        "a full disk",
        "def fill(name):\n"
        "    with open(name, 'wb') as f:\n"
        "        while True: f.write(b'x' * (1 << 20))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "full = refused(fill, '/tmp/a'), refused(fill, '/tmp/b'), refused(fill, '/dev/shm/c')\n"
        "[os.remove(p) for p in ('/tmp/a', '/tmp/b') if os.path.exists(p)]; held(*full)",
    ),
    _ends(
        "files without end",
        "n = 0\nwhile True:\n    open(f'/tmp/f{n}', 'w').close(); n += 1",
        CellStatus.FILES,
    ),
]
NO_DISK = [
    Case(
        "files of its own, which this tier has not",
        "held(*(refused(open, p, 'w') for p in ('/tmp/x', '/dev/shm/x', '/var/tmp/x', 'x')),"
        " refused(os.mkdir, '/tmp/abuse'), refused(os.chmod, '/tmp', 0o777),"
        " refused(os.utime, '/usr'), refused(os.symlink, 'a', '/tmp/b'))",
    ),
]
SPOOFS = [
    _ends(
        "answers in the session's name",
        "import json\n"
        "with socket.socket(fileno=3) as s:\n"
        "    s.send(json.dumps({'process': 1, 'outcome': 'ok'}).encode())\n"
        "    s.send(json.dumps({'process': os.getpid(), 'outcome': 'ok'}).encode())\n"
        "    s.detach()\n",
        OK,
        DIED,
        LOST,
    ),
    _ends(
        "an outcome that there is not",
        "import json\n"
        "with socket.socket(fileno=3) as s:\n"
        "    s.send(json.dumps({'process': os.getpid(), 'outcome': 'won'}).encode()); s.detach()",
        LOST,
    ),
    _ends(
        "nonsense in the session's name",
        "with socket.socket(fileno=3) as s: s.send(b'\\xff' * 100); s.detach()",
        OK,
        DIED,
        LOST,
    ),
    _ends("a session without ears", "os.closerange(0, 100)", OK, DIED, LOST),
    _ends("killing the session", "os.kill(os.getppid(), 9); time.sleep(0.2)", OK, DIED, LOST),
    _ends("killing all it can", "os.kill(-1, 9)", OK, DIED, LOST),
    _ends("stopping all it can", "os.kill(-1, 19)", OK, DIED, LOST, TIMEOUT),
    _ends(
        "changing what runs cells",
        "import gc\nsys.modules['builtins'].compile = None\nos.fork = lambda: 0\njson = None",
        OK,
        ERROR,
    ),
]
STRAYS = Case(
    "what is left running",
    "for _ in range(3):\n"
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "        while True: pass\n"
    "import threading\n"
    "def spin():\n"
    "    while True: pass\n"
    "threading.Thread(target=spin, daemon=True).start()\n"
    "held(True)",
)
COMMON = [*READING, *NETWORK, *KERNEL, *RESOURCES, STRAYS]
