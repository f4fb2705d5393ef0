"""The real binary for the campaigns: started on a data file of its own, spoken to, killed."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading

START_SECONDS_MAX = 20


class Violation(Exception):
    """A promise was broken."""


def binary():
    """$RECALLD_BIN, else target/release/recalld, else target/debug/recalld."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target"))
    choices = [os.environ.get("RECALLD_BIN"), f"{target}/release/recalld", f"{target}/debug/recalld"]
    for path in choices:
        if path and os.path.exists(path):
            return os.path.abspath(path)
    sys.exit("no binary: run `cargo build --release`, or set RECALLD_BIN")


class Server:
    """A server on `r.db` in a folder, answering by itself unless another upstream is given."""

    def __init__(self, folder, upstream="builtin", **settings):
        self.folder, self.upstream, self.settings = folder, upstream, settings
        self.process, self.port = None, None

    def start(self):
        """Starts, and waits until it says where it listens."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("RECALLD_", "OPENAI_"))}
        environment |= {f"RECALLD_{name.upper()}": str(value) for name, value in self.settings.items()}
        arguments = [binary(), "serve", "--listen", "127.0.0.1:0", "--data", "r.db", "--upstream", self.upstream]
        self.process = subprocess.Popen(arguments, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = []
        too_late = threading.Timer(START_SECONDS_MAX, self.process.kill)
        too_late.start()
        for line in self.process.stderr:
            said.append(line)
            found = re.search(r"url\s+http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
        too_late.cancel()
        if self.process.poll() is not None or not found:
            raise Violation("the server did not start:\n" + "".join(said))
        # Somebody must go on reading, or the server would stop at a full pipe.
        threading.Thread(target=lambda pipe: [None for _ in pipe], args=(self.process.stderr,), daemon=True).start()

    def kill(self):
        """`kill -9`: no time to say goodbye."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


class Door:
    """One connection to a server. Any exception means that nothing was acknowledged."""

    def __init__(self, port, user="campaign"):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.user = user

    def send(self, method, path, body=None, session=None):
        """Answers status, body and headers."""
        headers = {"x-user-id": self.user}
        if session:
            headers["x-session-id"] = session
        if body is not None:
            headers["content-type"], body = "application/json", json.dumps(body)
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        return response.status, json.loads(response.read()), response.headers

    def turns(self, session):
        """All turns of a session, or None when there is no such session."""
        turns, after = [], ""
        while True:
            status, page, _ = self.send("GET", f"/api/v1/sessions/{session}/turns?limit=50&after={after}")
            if status == 404:
                return None
            if status != 200:
                raise Violation(f"session {session} cannot be read: {status} {page}")
            turns += page["turns"]
            if page["next"] is None:
                return turns
            after = page["next"]
