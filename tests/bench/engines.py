"""The forward pass alone: Baton's engine bench, and llama-bench or anything
that takes its flags."""
import functools
import json
import os
import shlex
import subprocess


def run(command):
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout


class Baton:
    def __init__(self, directory):
        self.program = os.path.join(directory, "baton-engine-bench")

    def measure(self, model, threads, prompt=512, generate=64, **more):
        command = [self.program, model, "--threads", str(threads), "--prompt",
                   str(prompt), "--generate", str(generate)]
        for name, value in more.items():
            command += [f"--{name}", str(value)]
        return json.loads(run(command)), " ".join(command)


class LlamaBench:
    """`text`: [NAME=]PATH [flags…], as ./dev bench --peer takes it."""

    def __init__(self, text, name="peer"):
        if "=" in text.split("/")[0]:
            name, text = text.split("=", 1)
        self.name = name
        self.program, *self.flags = shlex.split(text)

    @functools.cached_property
    def knows_depth(self):
        shown = subprocess.run([self.program, "--help"], capture_output=True,
                               text=True, check=False)
        return "--n-depth" in shown.stdout + shown.stderr

    def _rate(self, model, threads, flags):
        command = [self.program, "-m", model, "-t", str(threads), "-r", "1",
                   "-o", "json"] + flags + self.flags
        return json.loads(run(command))[-1]["avg_ts"], " ".join(command)

    def prefill(self, model, threads, prompt):
        return self._rate(model, threads, ["-p", str(prompt), "-n", "0"])

    def decode(self, model, threads, depth, count):
        """Tokens a second after `depth` tokens."""
        if self.knows_depth:
            flags = ["-p", "0", "-n", str(count), "-d", str(depth)]
        else:
            flags = ["-p", "0", "-n", "0", "-gp", f"{depth},{count}"]
        return self._rate(model, threads, flags)
