// What the head of a request must not say: framing that two readers could
// take in two ways (RFC 9112 §6), and expectations and codings that are not
// served.
#ifndef BATON_SERVICES_HTTP_HEAD_CHECK_H_
#define BATON_SERVICES_HTTP_HEAD_CHECK_H_

#include <boost/beast/http/message.hpp>
#include <optional>

#include "services/http/message.h"

namespace baton::http {

// The answer to a request that is refused for its head; nullopt: read on.
// After a refusal the connection must end: nobody knows where the next request
// would start. Pure.
//   400  Transfer-Encoding in HTTP/1.0, with Content-Length, or not ending in
//        one "chunked"; more than one Host
//   415  a content coding; a request of a browser page (it has Origin or
//        Sec-Fetch-Site) that is not JSON, so that no page can post here
//        without a preflight, which nothing here answers
//   417  an expectation other than 100-continue
//   501  a transfer coding under the "chunked"
std::optional<Response> CheckHead(
    const boost::beast::http::request_header<>& head);

// True if the client waits for "100 Continue" before it sends its body.
bool ExpectsContinue(const boost::beast::http::request_header<>& head);

}  // namespace baton::http

#endif  // BATON_SERVICES_HTTP_HEAD_CHECK_H_
