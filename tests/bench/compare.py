#!/usr/bin/env python3
"""Interleaved rounds of Baton and llama.cpp on the same file and threads.

Rows: {name, baton, peer, unit, ratio, command, cpu, isa}; medians over the
rounds; ratio > 1 means that Baton is better (for times it is peer / baton).
Where the peer is "budget", its figure is what Baton allows itself.
"""
import argparse
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

def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        text = info.read()
    name = re.search(r"model name\s*:\s*(.*)", text)
    flags = re.search(r"flags\s*:\s*(.*)", text).group(1).split()
    isa = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16",
                       "amx_int8") if f in flags]
    return name.group(1).strip() if name else "unknown", "+".join(isa)


def run(command):
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def baton_engine(options, more):
    command = [f"{options.baton}/baton-engine-bench", options.model] + more
    return json.loads(run(command)), " ".join(command)


def llama_bench(options, threads, more):
    command = [f"{options.peer}/llama-bench", "-m", options.model, "-t",
               str(threads), "-r", "1", "-o", "json"] + more
    return json.loads(run(command))[0]["avg_ts"], " ".join(command)


def stream(url, prompt, max_tokens):
    """One streamed completion: (seconds to the first token, t/s after it)."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0,
            "stream": True, "ignore_eos": True, "cache_prompt": False}
    request = urllib.request.Request(
        url + "/v1/completions", data=json.dumps(body).encode(),
        headers={"content-type": "application/json"})
    start = time.monotonic()
    first, count, last = None, 0, start
    with urllib.request.urlopen(request, timeout=120) as response:
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("choices") and event["choices"][0].get("text"):
                last = time.monotonic()
                first = first or last - start
                count += 1
    rate = (count - 1) / (last - start - first) if count > 1 else 0
    return first, rate, count


def parallel(url, prompts, max_tokens):
    """Total tokens a second of len(prompts) streams at once."""
    results = []
    threads = [threading.Thread(
        target=lambda p=p: results.append(stream(url, p, max_tokens)))
        for p in prompts]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(r[2] for r in results) / (time.monotonic() - start)


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
    """Baton's cluster and llama-server, both up for the whole run."""

    def __init__(self, options):
        self.directory = tempfile.TemporaryDirectory()
        log = open(os.path.join(self.directory.name, "log"), "wb")
        baton_port, peer_port = free_port(), free_port()
        self.baton = f"http://127.0.0.1:{baton_port}"
        self.peer = f"http://127.0.0.1:{peer_port}"
        self.commands = [
            [f"{options.baton}/baton", "up", "--model", options.model,
             "--http", f"127.0.0.1:{baton_port}", "--grpc", "127.0.0.1:0",
             "--log-dir", self.directory.name, "--threads", "1",
             "--kv-memory", f"{KV_MIB}MiB", "--state-file",
             os.path.join(self.directory.name, "state.json")],
            [f"{options.peer}/llama-server", "-m", options.model, "--host",
             "127.0.0.1", "--port", str(peer_port), "-t", "1", "-np", "4",
             "-c", "8192", "--no-webui"]]
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


def engine_rows(options, add):
    for threads in (1, 2):
        more = ["--threads", str(threads), "--prompt", "512", "--generate",
                "64"]
        ours, theirs_pp, theirs_tg = [], [], []
        for _ in range(options.rounds):
            result, command = baton_engine(options, more)
            ours.append(result)
            pp, peer_pp = llama_bench(options, threads, ["-p", "512", "-n",
                                                         "0"])
            tg, peer_tg = llama_bench(options, threads, ["-p", "0", "-n",
                                                         "64", "-d", "512"])
            theirs_pp.append(pp)
            theirs_tg.append(tg)
        add(f"prefill512/t{threads}", [o["pp"] for o in ours], theirs_pp,
            "t/s", f"{command} | {peer_pp}")
        add(f"decode/t{threads}", [o["tg"] for o in ours], theirs_tg, "t/s",
            f"{command} | {peer_tg}")


def server_rows(options, add):
    servers = Servers(options)
    try:
        command = " | ".join(" ".join(c) for c in servers.commands)
        ttft, streams = ([], []), ([], [])
        for round_number in range(options.rounds):
            prompt = prompt_of(512, 1000 + round_number)
            ttft[0].append(stream(servers.baton, prompt, 4)[0] * 1000)
            ttft[1].append(stream(servers.peer, prompt, 4)[0] * 1000)
        add("ttft512/server", ttft[0], ttft[1], "ms", command, inverse=True)
        # One request at a time: under load it would show how the cores are
        # shared.
        for number in range(30):
            stream(servers.baton, prompt_of(512, 2000 + number), 4)
        for stage in ("request", "token"):
            share = median_of_histogram(
                servers.baton, "baton_gateway_overhead_seconds", stage)
            add(f"gateway-share/{stage}", [share], [1.0], "ms", command,
                inverse=True, peer="budget")
        for round_number in range(options.rounds):
            prompts = [prompt_of(32, 50 * round_number + i) for i in range(4)]
            streams[0].append(parallel(servers.baton, prompts, 48))
            streams[1].append(parallel(servers.peer, prompts, 48))
        add("streams4/server", streams[0], streams[1], "t/s", command)
        model_mb = os.path.getsize(options.model) / 2**20
        for worker in servers.state()["workers"]:
            beyond = resident_mb(worker["pid"]) - model_mb - KV_MIB
            add(f"resident-beyond-model-and-kv/{worker['role']}",
                [max(beyond, 1.0)], [150.0], "MiB", command, inverse=True,
                peer="budget")
    finally:
        servers.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--baton", required=True, help="Baton's binaries")
    parser.add_argument("--peer", required=True, help="llama.cpp's binaries")
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    options = parser.parse_args()
    cpu, isa = cpu_name()
    print(f"cpu: {cpu} ({isa})")
    rows = []

    def add(name, ours, theirs, unit, command, inverse=False,
            peer="llama.cpp"):
        a, b = statistics.median(ours), statistics.median(theirs)
        ratio = b / a if inverse else a / b
        rows.append({"name": f"{name}/smollm2/Q4_1/{peer}/{isa}",
                     "baton": round(a, 3), "peer": round(b, 3), "unit": unit,
                     "ratio": round(ratio, 3), "command": command,
                     "cpu": cpu, "isa": isa})
        print(f"{name:37} baton {a:9.2f} {unit:4} {peer} {b:9.2f} "
              f"{unit:4} ratio {ratio:.3f}  (min {min(ours):.1f} "
              f"max {max(ours):.1f})", flush=True)

    engine_rows(options, add)
    server_rows(options, add)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
