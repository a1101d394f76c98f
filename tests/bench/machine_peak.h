// What this machine can do at best, measured: the yardstick of the kernels'
// figures. One thread.
#ifndef BATON_TESTS_BENCH_MACHINE_PEAK_H_
#define BATON_TESTS_BENCH_MACHINE_PEAK_H_

namespace baton::worker {

// Bytes a second of reading memory far larger than any cache, in order.
double PeakReadBandwidth();

// int8 operations (a product and a sum are two) a second of registers alone, by
// the best instructions of this processor that our kernels use; 0 if there are
// none.
double PeakInt8Operations();

}  // namespace baton::worker

#endif  // BATON_TESTS_BENCH_MACHINE_PEAK_H_
