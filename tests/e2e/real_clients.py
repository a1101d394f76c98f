"""Real clients, unmodified, against a running cluster.

Usage: real_clients.py HTTP_ADDRESS GRPC_ADDRESS. Uses openai and grpcio with
reflection and health from PyPI. Exits with 1 at the first failed expectation.
"""
import json
import sys
import time
import unittest
import urllib.error
import urllib.request

import grpc
import openai
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase)

HTTP, GRPC = "", ""


def client(**more):
    return openai.OpenAI(base_url=f"http://{HTTP}/v1", api_key="none",
                         max_retries=0, timeout=60, **more)


def inflight():
    with urllib.request.urlopen(f"http://{HTTP}/metrics", timeout=5) as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines
               if line.startswith("baton_requests_inflight"))


class OpenAi(unittest.TestCase):
    def setUp(self):
        self.client = client()
        self.model = self.client.models.list().data[0].id
        self.messages = [{"role": "user", "content": "Say hello."}]

    def test_model_carries_its_context(self):
        model = self.client.models.retrieve(self.model)
        extra = model.model_dump()
        self.assertGreater(extra["max_model_len"], 0)
        self.assertEqual(extra["context_length"], extra["max_model_len"])
        self.assertEqual(extra["meta"]["n_ctx"], extra["max_model_len"])

    def test_chat(self):
        answer = self.client.chat.completions.create(
            model=self.model, messages=self.messages, max_tokens=8,
            temperature=0, seed=1)
        choice = answer.choices[0]
        self.assertEqual(choice.message.role, "assistant")
        self.assertTrue(choice.message.content)
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertGreater(answer.usage.prompt_tokens, 0)
        self.assertEqual(answer.usage.total_tokens,
                         answer.usage.prompt_tokens +
                         answer.usage.completion_tokens)

    def test_stream_equals_plain_and_carries_usage(self):
        arguments = dict(model=self.model, messages=self.messages,
                         max_tokens=12, temperature=0.7, seed=5)
        plain = self.client.chat.completions.create(**arguments)
        text, usage, finish = "", None, None
        for chunk in self.client.chat.completions.create(
                stream=True, stream_options={"include_usage": True},
                **arguments):
            if chunk.choices:
                text += chunk.choices[0].delta.content or ""
                finish = chunk.choices[0].finish_reason or finish
                self.assertIsNone(chunk.usage)
            else:
                usage = chunk.usage
        self.assertEqual(text, plain.choices[0].message.content)
        self.assertEqual(finish, plain.choices[0].finish_reason)
        self.assertEqual(usage.completion_tokens,
                         plain.usage.completion_tokens)

    def test_completion_with_logprobs_and_stop(self):
        answer = self.client.completions.create(
            model=self.model, prompt="One, two, three,", max_tokens=8,
            temperature=0, logprobs=3)
        self.assertEqual(len(answer.choices[0].logprobs.tokens),
                         answer.usage.completion_tokens)
        first = answer.choices[0].text
        self.assertTrue(first)
        stop = first[2:4]
        cut = self.client.completions.create(
            model=self.model, prompt="One, two, three,", max_tokens=8,
            temperature=0, stop=[stop])
        self.assertEqual(cut.choices[0].finish_reason, "stop")
        self.assertEqual(cut.choices[0].text, first[:first.index(stop)])

    def test_cancelled_stream_frees_everything(self):
        stream = self.client.chat.completions.create(
            model=self.model, messages=self.messages, max_tokens=2000,
            temperature=1, stream=True, extra_body={"ignore_eos": True})
        for count, _ in enumerate(stream):
            if count == 3:
                break
        stream.close()
        end = time.monotonic() + 5
        while inflight() > 0 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(inflight(), 0)

    def test_error_classes(self):
        create = self.client.chat.completions.create
        with self.assertRaises(openai.NotFoundError) as caught:
            create(model="no-such-model", messages=self.messages)
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model=self.model, messages=self.messages, temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model=self.model,
                   messages=[{"role": "user", "content": "word " * 20000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError):
            create(model=self.model, messages=self.messages, tools=[
                {"type": "function", "function": {"name": "f"}}])
        with self.assertRaises(openai.BadRequestError):
            create(model=self.model, messages=self.messages,
                   response_format={"type": "json_object"})
        with self.assertRaises(openai.BadRequestError):
            create(model=self.model, messages=[])


class BadInput(unittest.TestCase):
    def post(self, body, path="/v1/chat/completions"):
        request = urllib.request.Request(
            f"http://{HTTP}{path}", data=body,
            headers={"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except (urllib.error.URLError, ConnectionError):
            # A server that answers 413 before the body's end may close.
            return 413, {"error": {"code": "request_too_large"}}

    def expect(self, status, body):
        code, answer = self.post(body)
        self.assertEqual(code, status, answer)
        self.assertIn("error", answer)

    def test_hostile_bodies(self):
        self.expect(413, b'{"messages":"' + b"a" * (40 << 20) + b'"}')
        self.expect(400, b"[" * 10000 + b"]" * 10000)
        self.expect(400, b'{"messages":' + b'{"a":' * 10000)
        self.expect(400, b'{"messages":[{"role":"user","content":"\xff\xfe"}]}')
        self.expect(400, b"")
        self.expect(400, b"null")
        self.expect(400, b'{"messages":[{"role":"user","content":"a"}],'
                         b'"max_tokens":1e99}')
        code, _ = self.post(b"{}", "/v1/nothing")
        self.assertEqual(code, 404)


class Grpc(unittest.TestCase):
    def setUp(self):
        self.channel = grpc.insecure_channel(GRPC)
        self.pool = descriptor_pool.DescriptorPool(
            ProtoReflectionDescriptorDatabase(self.channel))

    def message(self, name):
        return message_factory.GetMessageClass(
            self.pool.FindMessageTypeByName(f"baton.v1.{name}"))

    def test_health(self):
        stub = health_pb2_grpc.HealthStub(self.channel)
        for service in ("", "liveness", "readiness"):
            status = stub.Check(
                health_pb2.HealthCheckRequest(service=service)).status
            self.assertEqual(status,
                             health_pb2.HealthCheckResponse.SERVING, service)

    def test_reflection_finds_every_service(self):
        names = set(ProtoReflectionDescriptorDatabase(
            self.channel).get_services())
        for service in ("ChatService", "CompletionService",
                        "TokenizerService", "ModelService",
                        "DiscoveryService"):
            self.assertIn(f"baton.v1.{service}", names)

    def test_chat_stream_over_reflection(self):
        request = self.message("ChatRequest")()
        turn = request.messages.add()
        turn.role, turn.content = "user", "Say hello."
        request.limits.max_tokens = 8
        request.sampling.temperature = 0
        call = self.channel.unary_stream(
            "/baton.v1.ChatService/StreamChatCompletion",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=self.message("GenerationEvent").FromString)
        tokens, end = 0, None
        for event in call(request, timeout=60):
            kind = event.WhichOneof("event")
            if kind == "delta":
                tokens += len(event.delta.tokens)
            if kind == "end":
                end = event.end
        self.assertEqual(end.usage.completion_tokens, tokens)

    def test_errors(self):
        request = self.message("CompletionRequest")()
        request.model = "no-such-model"
        request.text = "a"
        call = self.channel.unary_unary(
            "/baton.v1.CompletionService/CreateCompletion",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=self.message(
                "GenerationResponse").FromString)
        with self.assertRaises(grpc.RpcError) as caught:
            call(request, timeout=30)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
        request.model = ""
        request.sampling.temperature = -1
        with self.assertRaises(grpc.RpcError) as caught:
            call(request, timeout=30)
        self.assertEqual(caught.exception.code(),
                         grpc.StatusCode.INVALID_ARGUMENT)


if __name__ == "__main__":
    HTTP, GRPC = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
