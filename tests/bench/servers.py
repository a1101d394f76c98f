"""Baton's cluster and llama-server side by side, and clients of both."""
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

KV_MIB = 256  # each worker's KV cache
MOST_STREAMS = 8


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def token_times(url, prompt, max_tokens):
    """One streamed completion: (when it was sent, when each token came)."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0,
            "stream": True, "ignore_eos": True, "cache_prompt": False}
    request = urllib.request.Request(
        url + "/v1/completions", data=json.dumps(body).encode(),
        headers={"content-type": "application/json"})
    sent, times = time.monotonic(), []
    with urllib.request.urlopen(request, timeout=300) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("choices") and event["choices"][0].get("text"):
                times.append(time.monotonic())
    return sent, times


def first_token(url, prompt, max_tokens=4):
    """Seconds to the first token of one request."""
    sent, times = token_times(url, prompt, max_tokens)
    return times[0] - sent


class Background:
    """Streams that run side by side while something else happens."""

    def __init__(self, url, prompts, max_tokens):
        self.results = []
        self.threads = [threading.Thread(
            target=lambda p=p: self.results.append(
                token_times(url, p, max_tokens))) for p in prompts]
        self.start = time.monotonic()
        for thread in self.threads:
            thread.start()

    def join(self):
        for thread in self.threads:
            thread.join()
        self.end = time.monotonic()

    def rate(self):
        """Tokens a second of all of them."""
        self.join()
        return sum(len(times) for _, times in self.results) / (
            self.end - self.start)

    def slow_gap(self, since, until):
        """The 99th percentile of the seconds between tokens of a stream,
        over those that came between the two times."""
        gaps = [b - a for _, times in self.results
                for a, b in zip(times, times[1:]) if since <= b <= until]
        return statistics.quantiles(gaps, n=100)[98]


def interference(url, salt):
    """A 4,096-token prompt comes while four streams run: (p99 of the streams'
    gaps with it, and without, its time to the first token with them, and
    alone), seconds."""
    long = [prompt_of(4096, salt + i) for i in range(2)]
    alone = first_token(url, long[0])
    streams = Background(
        url, [prompt_of(32, salt + 10 + i) for i in range(4)], 600)
    time.sleep(2)
    quiet_since = time.monotonic()
    time.sleep(3)
    sent = time.monotonic()
    beside = first_token(url, long[1])
    came = time.monotonic()
    streams.join()
    return (streams.slow_gap(sent, came), streams.slow_gap(quiet_since, sent),
            beside, alone)


def wait_ready(url, process):
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended early")
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url} never became ready")


class Servers:
    """Baton's cluster, one thread a worker, and llama-server with two threads,
    both up for the whole run."""

    def __init__(self, options, model):
        self.directory = tempfile.TemporaryDirectory()
        log = open(os.path.join(self.directory.name, "log"), "wb")
        baton_port, peer_port = free_port(), free_port()
        self.baton = f"http://127.0.0.1:{baton_port}"
        self.peer = f"http://127.0.0.1:{peer_port}"
        self.commands = [
            [f"{options.baton}/baton", "up", "--model", model,
             "--http", f"127.0.0.1:{baton_port}", "--grpc", "127.0.0.1:0",
             "--log-dir", self.directory.name, "--threads", "1",
             "--kv-memory", f"{KV_MIB}MiB", "--state-file",
             os.path.join(self.directory.name, "state.json")],
            [f"{options.llama}/llama-server", "-m", model, "--host", "127.0.0.1",
             "--port", str(peer_port), "-t", "2", "-np", str(MOST_STREAMS),
             "-c", str(5120 * MOST_STREAMS), "--no-webui"]]
        self.processes = [subprocess.Popen(c, stdout=log, stderr=log)
                          for c in self.commands]
        wait_ready(self.baton + "/readyz", self.processes[0])
        wait_ready(self.peer + "/health", self.processes[1])

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(timeout=30)
        self.directory.cleanup()

    def state(self):
        path = os.path.join(self.directory.name, "state.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def resident_mb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


def median_of_histogram(url, name, stage):
    """The median of a Prometheus histogram, linear within its bucket; ms."""
    text = urllib.request.urlopen(url + "/metrics", timeout=5).read().decode()
    buckets = []
    for line in text.splitlines():
        match = re.match(name + r'_bucket\{(.*)\} (\S+)', line)
        if match and f'stage="{stage}"' in match.group(1):
            bound = re.search(r'le="([^"]+)"', match.group(1)).group(1)
            buckets.append((float(bound), float(match.group(2))))
    buckets.sort()
    half = buckets[-1][1] / 2
    low, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= half:
            return 1000 * (low + (bound - low) * (half - below) /
                           max(count - below, 1))
        low, below = bound, count
    return float("inf")


def prompt_of(tokens, salt):
    # " a" style words are about one token each in byte-pair vocabularies.
    words = "the of and to in is it for on with as at by from".split()
    return f"{salt} " + " ".join(words[(i * 7 + salt) % len(words)]
                                 for i in range(tokens - 2))
