// The table of routes: which handler answers a method and a path.
#ifndef BATON_GATEWAY_HTTP_ROUTE_TABLE_H_
#define BATON_GATEWAY_HTTP_ROUTE_TABLE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gateway/http/measured_writer.h"
#include "services/http/message.h"

namespace baton::gateway {

// One request on its way to a handler.
struct Call {
  http::Request request;
  std::string request_id;  // the client's x-request-id; empty = none or odd
  std::string argument;    // what "{id}" matched, percent-decoded
  std::shared_ptr<MeasuredWriter> writer;
};

// Immutable after the last Add; then thread-safe.
class RouteTable {
 public:
  using Function = std::function<void(Call)>;
  struct Route {
    std::string method;  // a GET route answers HEAD too
    std::string path;    // may end in "/{id}", which matches the whole rest
    Function function;
  };
  struct Match {
    const Route* route = nullptr;  // nullptr: no path, or not this method
    std::string argument;
    std::string allowed;  // for 405: "GET, HEAD"; empty: no such path
  };

  void Add(std::string method, std::string path, Function function);
  Match Find(absl::string_view method, absl::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_ROUTE_TABLE_H_
