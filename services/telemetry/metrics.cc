#include "services/telemetry/metrics.h"

namespace baton::telemetry {
namespace {

constexpr double kTimeToFirstToken[] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                        .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                        20,   40,   80,  160, 640, 2560};
constexpr double kInterToken[] = {.001, .0025, .005, .0075, .01, .025,
                                  .05,  .075,  .1,   .15,   .2,  .3,
                                  .4,   .5,    .75,  1,     2.5, 5};
constexpr double kRequest[] = {.05, .1,  .3,  .5,  .8,  1,   1.5, 2,
                               2.5, 5,   10,  15,  20,  30,  40,  50,
                               60,  120, 240, 480, 960, 1920};
constexpr double kTransfer[] = {.0005, .001, .0025, .005, .01, .025, .05,
                                .1,    .25,  .5,    1,    2.5, 5,    10};
constexpr double kOverhead[] = {.00005, .0001, .0002, .0003, .0004, .0006,
                                .0008,  .001,  .0012, .0015, .002,  .003,
                                .005,   .01,   .025,  .05,   .1};
constexpr double kTokens[] = {1,     2,     5,     10,     20,    50,
                              100,   200,   500,   1000,   2000,  5000,
                              10000, 20000, 50000, 100000, 200000};
constexpr double kBytes[] = {4096.,      16384.,     65536.,    262144.,
                             1048576.,   4194304.,   16777216., 67108864.,
                             268435456., 1073741824.};

}  // namespace

std::span<const double> TimeToFirstTokenBuckets() { return kTimeToFirstToken; }
std::span<const double> InterTokenBuckets() { return kInterToken; }
std::span<const double> RequestBuckets() { return kRequest; }
std::span<const double> TransferBuckets() { return kTransfer; }
std::span<const double> OverheadBuckets() { return kOverhead; }
std::span<const double> TokenBuckets() { return kTokens; }
std::span<const double> ByteBuckets() { return kBytes; }

}  // namespace baton::telemetry
