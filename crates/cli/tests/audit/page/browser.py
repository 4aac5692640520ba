"""A small client of the DevTools protocol of Chromium: the standard library alone."""
import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request


class Browser:
    def __init__(self, *flags):
        self.profile = tempfile.mkdtemp(prefix="page-test-")
        self.process = subprocess.Popen(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--hide-scrollbars",
                                         "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                                         f"--user-data-dir={self.profile}", *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "TMPDIR": self.profile})
        port = pathlib.Path(self.profile, "DevToolsActivePort")
        for _ in range(1200):
            if port.exists() and port.read_text().strip():
                break
            time.sleep(0.05)
        self.port = int(port.read_text().split()[0])

    def page(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        return Page(json.load(urllib.request.urlopen(request)))

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    __enter__ = lambda self: self
    __exit__ = lambda self, *_: self.close()


class Page:
    def __init__(self, target):
        host, path = target["webSocketDebuggerUrl"][5:].split("/", 1)
        name, port = host.split(":")
        self.socket = socket.create_connection((name, int(port)), timeout=600)
        self.socket.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(4096)
        self.buffer = self.buffer.split(b"\r\n\r\n", 1)[1]
        self.id, self.events = 0, []
        for domain in ("Page", "Runtime", "Network", "Log", "Performance", "Accessibility"):
            self.call(domain + ".enable")

    def take(self, n):
        while len(self.buffer) < n:
            got = self.socket.recv(1 << 20)
            if not got:
                raise EOFError
            self.buffer += got
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def receive(self):
        message = b""
        while True:
            first, second = self.take(2)
            length = second & 127
            if length == 126:
                length = struct.unpack(">H", self.take(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", self.take(8))[0]
            message += self.take(length)
            if first & 128:
                return json.loads(message)

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        head = bytes([129]) + (bytes([128 | len(data)]) if len(data) < 126 else bytes([254]) + struct.pack(">H", len(data)) if len(data) < 65536
                               else bytes([255]) + struct.pack(">Q", len(data)))
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def call(self, method, **params):
        self.id += 1
        self.send(json.dumps({"id": self.id, "method": method, "params": params}))
        while True:
            message = self.receive()
            if message.get("id") == self.id:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, url, wait="Page.loadEventFired"):
        if url != "about:blank":
            # Another fragment of the same page would not load it again.
            self.open("about:blank")
        self.events = []
        self.call("Page.navigate", url=url)
        while not any(e.get("method") == wait for e in self.events):
            self.events.append(self.receive())
        self.settle()

    def settle(self):
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))")

    def run(self, code):
        result = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:600])
        return result["result"].get("value")

    def key(self, key, text=None, modifiers=0):
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, " ": 32}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else None) if text is None else text
        extra = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=codes.get(key, ord(key[0].upper())), modifiers=modifiers, **extra)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=codes.get(key, ord(key[0].upper())), modifiers=modifiers)
        self.settle()

    def type(self, text):
        for c in text:
            self.key(c)

    def without_scripts(self, url):
        """Opens a page whose scripts do not run. What the test runs later only looks at it."""
        self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.events = []
        self.call("Page.navigate", url=url)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.receive())
        self.call("Emulation.setScriptExecutionDisabled", value=False)

    def view(self, width, height, dark=False, mobile=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def shot(self, file, full=False):
        self.settle()
        clip = {}
        if full:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}, "captureBeyondViewport": True}
        pathlib.Path(file).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False, paperWidth=8.27, paperHeight=11.69)["data"])

    def problems(self):
        """What the console said, and requests beside the page itself."""
        out = []
        for e in self.events:
            method, p = e.get("method"), e.get("params", {})
            if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled") or method == "Log.entryAdded":
                out.append(json.dumps(p)[:400])
            if method == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("file:", "data:")):
                out.append("request " + p["request"]["url"])
        return out
