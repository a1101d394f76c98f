// A program that behaves like a Baton process seen from its supervisor: says
// where it listens and ends on SIGTERM. Flags:
//   --grpc=ADDRESS --http=ADDRESS   port 0 becomes one made from the pid
//   --log=FILE       appends "NAME start" and "NAME term"
//   --name=NAME
//   --exit=CODE      ends at once, without listening
//   --ignore-term    only SIGKILL ends it
//   --say=TEXT       on standard error, first
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace {

std::string RealAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.substr(colon) != ":0") {
    return address;
  }
  return address.substr(0, colon + 1) + std::to_string(1000 + getpid() % 60000);
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const size_t equals = flag.find('=');
    flags[flag.substr(0, equals)] =
        equals == std::string::npos ? "" : flag.substr(equals + 1);
  }
  if (flags.count("--say")) {
    std::fprintf(stderr, "%s\n", flags["--say"].c_str());
  }
  if (flags.count("--exit")) return std::atoi(flags["--exit"].c_str());

  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::ofstream log(flags["--log"], std::ios::app);
  log << flags["--name"] << " start" << std::endl;
  std::printf("baton-fake listening grpc=%s http=%s\n",
              RealAddress(flags["--grpc"]).c_str(),
              RealAddress(flags["--http"]).c_str());
  std::fflush(stdout);
  int signal = 0;
  do {
    sigwait(&set, &signal);
    log << flags["--name"] << " term" << std::endl;
  } while (flags.count("--ignore-term"));
  return 0;
}
