#include "services/cli/load_progress.h"

#include <cstdio>

#include "services/cli/table.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kLineEvery = absl::Seconds(5);
constexpr int kBarWidth = 40;

}  // namespace

void LoadProgress::Show(double ratio, absl::Duration now) {
  if (!terminal_) {
    if (now < next_line_) return;
    next_line_ = now + kLineEvery;
    std::fprintf(stderr, "loading the model: %d %%\n",
                 static_cast<int>(ratio * 100));
    return;
  }
  shown_ = true;
  std::fprintf(stderr, "\r\x1b[K%s",
               RenderProgress("loading the model", ratio, kBarWidth).c_str());
}

void LoadProgress::Clear() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

}  // namespace baton::cli
