// Speed of the forward pass alone, in llama-bench's terms: pp = prompt rows a
// second in one chunked pass, tg = rows a second after it, `rows` of each of
// `streams` sequences a step (a step of several rows is what verifies a draft);
// step_ms = the time of such a step. It imitates a worker's device thread
// without the engine, the sampler and the network; JSON on standard output.
//
//   baton-engine-bench MODEL --threads 1 --prompt 512 --generate 64
//                      --streams 1 --rows 1 --chunk 512
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "worker/cache/block_pool.h"
#include "worker/model/model.h"

namespace baton::worker {
namespace {

using Arguments = std::map<std::string, int>;

double Seconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

struct Sequence {
  std::vector<BlockRef> blocks;
  std::vector<uint32_t> table;
};

int Run(const std::string& path, const Arguments& arguments) {
  Model::Options options;
  options.path = path;
  auto model = Model::Load(options);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 1;
  }
  const int prompt = arguments.at("--prompt");
  const int generate = arguments.at("--generate");
  const int streams = arguments.at("--streams");
  const int step_rows = arguments.at("--rows");
  const int chunk = arguments.at("--chunk");
  const uint32_t blocks =
      static_cast<uint32_t>((prompt + generate + step_rows) / 64 + 1);
  BlockPool::Options pool_options;
  pool_options.block_bytes = (*model)->layout().groups[0].block_bytes;
  pool_options.blocks = blocks * static_cast<uint32_t>(streams);
  auto pool = BlockPool::Create(pool_options);
  auto forward =
      (*model)->CreateForward(pool->get(), arguments.at("--threads"));
  if (!forward.ok()) return 1;
  std::vector<Sequence> sequences(static_cast<size_t>(streams));
  for (Sequence& sequence : sequences) {
    sequence.blocks = *(*pool)->TryAllocate(blocks);
    for (const BlockRef& block : sequence.blocks) {
      sequence.table.push_back(block.index());
    }
  }
  std::vector<TokenId> tokens(
      static_cast<size_t>(prompt + generate + step_rows));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>(300 + (i * 7919) % 1500);
  }
  const auto rows = [&](const Sequence& sequence, int start, int count,
                        int logits) {
    SequenceRows result;
    result.tokens = std::span<const TokenId>(tokens).subspan(
        static_cast<size_t>(start), static_cast<size_t>(count));
    result.start_position = static_cast<uint32_t>(start);
    result.block_table = sequence.table;
    result.logit_rows = static_cast<uint32_t>(logits);
    return result;
  };
  // Warm-up: maps the weights and starts the threads.
  if (!(*forward)->Run(StepBatch{{rows(sequences[0], 0, 1, 1)}}).ok()) {
    return 1;
  }
  auto start = std::chrono::steady_clock::now();
  for (int at = 0; at < prompt; at += chunk) {
    const int count = std::min(chunk, prompt - at);
    if (!(*forward)
             ->Run(StepBatch{
                 {rows(sequences[0], at, count, at + count == prompt ? 1 : 0)}})
             .ok()) {
      return 1;
    }
  }
  const double prompt_seconds = Seconds(start);
  for (size_t i = 1; i < sequences.size(); ++i) {
    if (!(*forward)->Run(StepBatch{{rows(sequences[i], 0, prompt, 1)}}).ok()) {
      return 1;
    }
  }
  start = std::chrono::steady_clock::now();
  for (int step = 0; step < generate; ++step) {
    StepBatch batch;
    for (const Sequence& sequence : sequences) {
      batch.sequences.push_back(
          rows(sequence, prompt + step, step_rows, step_rows));
    }
    if (!(*forward)->Run(batch).ok()) return 1;
  }
  const double generate_seconds = Seconds(start);
  std::printf(
      "{\"pp\": %.3f, \"tg\": %.3f, \"step_ms\": %.3f}\n",
      prompt > 0 ? prompt / prompt_seconds : 0.0,
      generate > 0 ? generate * streams * step_rows / generate_seconds : 0.0,
      generate > 0 ? 1000 * generate_seconds / generate : 0.0);
  return 0;
}

}  // namespace
}  // namespace baton::worker

int main(int argc, char** argv) {
  baton::worker::Arguments arguments = {{"--threads", 1},   {"--prompt", 512},
                                        {"--generate", 64}, {"--streams", 1},
                                        {"--rows", 1},      {"--chunk", 512}};
  if (argc < 2) return 2;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (!arguments.count(argv[i])) {
      std::fprintf(stderr, "unknown flag %s\n", argv[i]);
      return 2;
    }
    arguments[argv[i]] = std::atoi(argv[i + 1]);
  }
  return baton::worker::Run(argv[1], arguments);
}
