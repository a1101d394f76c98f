#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "services/base/executor.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

TEST(ThreadPoolExecutorTest, RunsWhatIsQueuedBeforeItStops) {
  std::atomic<int> ran = 0;
  {
    ThreadPoolExecutor executor({.threads = 2});
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(executor.Post([&ran] { ++ran; }));
    }
    executor.Stop();
    EXPECT_FALSE(executor.Post([&ran] { ran = -1000; }));
    EXPECT_FALSE(
        executor.PostAfter(absl::ZeroDuration(), [&ran] { ran = -1000; }));
  }
  EXPECT_EQ(ran, 100);
}

TEST(ThreadPoolExecutorTest, RunsTasksOnSeveralThreadsAtOnce) {
  ThreadPoolExecutor executor({.threads = 2});
  // Each waits for the other: passes only if both run at the same time.
  std::latch both(3);
  executor.Post([&both] { both.arrive_and_wait(); });
  executor.Post([&both] { both.arrive_and_wait(); });
  both.arrive_and_wait();
}

TEST(ThreadPoolExecutorTest, RefusesWhenTheQueueIsFull) {
  ThreadPoolExecutor executor({.threads = 1, .max_queued = 2});
  std::latch started(1), release(1);
  ASSERT_TRUE(executor.Post([&started, &release] {
    started.count_down();
    release.wait();
  }));
  started.wait();
  EXPECT_TRUE(executor.Post([] {}));
  EXPECT_TRUE(executor.Post([] {}));
  EXPECT_FALSE(executor.Post([] {}));
  release.count_down();
}

TEST(ThreadPoolExecutorTest, RunsDelayedTasksInTheOrderOfTheirTimes) {
  ThreadPoolExecutor executor({.threads = 1});
  std::vector<int> order;
  std::latch started(1), release(1), done(3);
  const auto record = [&order, &done](int value) {
    order.push_back(value);
    done.count_down();
  };
  // The only thread is held until all three are queued.
  executor.Post([&started, &release] {
    started.count_down();
    release.wait();
  });
  started.wait();
  executor.PostAfter(absl::Milliseconds(30), [&record] { record(3); });
  executor.PostAfter(absl::Milliseconds(1), [&record] { record(1); });
  executor.PostAfter(absl::Milliseconds(15), [&record] { record(2); });
  release.count_down();
  done.wait();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(ThreadPoolExecutorTest, ADelayedTaskNeverRunsEarly) {
  ThreadPoolExecutor executor({.threads = 1});
  std::latch done(1);
  const auto start = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration waited{};
  executor.PostAfter(absl::Milliseconds(20), [&] {
    waited = std::chrono::steady_clock::now() - start;
    done.count_down();
  });
  done.wait();
  EXPECT_GE(waited, std::chrono::milliseconds(20));
}

TEST(ThreadPoolExecutorTest, StopDropsDelayedTasksAndWhatTheyHold) {
  auto held = std::make_shared<int>(1);
  ThreadPoolExecutor executor({.threads = 1});
  executor.PostAfter(absl::Hours(1), [held] { *held = 2; });
  executor.Stop();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(*held, 1);
}

TEST(StrandTest, RunsTasksInOrderAndOneAtATime) {
  ThreadPoolExecutor executor({.threads = 4});
  auto strand = Strand::Create(&executor);
  std::vector<int> order;  // unguarded on purpose: the strand orders access
  std::atomic<int> inside = 0;
  std::latch done(1);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(strand->Post([&order, &inside, i] {
      EXPECT_EQ(inside.fetch_add(1), 0);
      order.push_back(i);
      inside.fetch_sub(1);
    }));
  }
  ASSERT_TRUE(strand->Post([&done] { done.count_down(); }));
  done.wait();
  std::vector<int> expected(200);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(StrandTest, ABusyStrandLeavesThreadsToOthers) {
  ThreadPoolExecutor executor({.threads = 1});
  auto strand = Strand::Create(&executor);
  std::latch started(1), release(1), other(1), done(1);
  executor.Post([&started, &release] {
    started.count_down();
    release.wait();
  });
  started.wait();
  int ran_before_other = -1;
  int ran = 0;
  for (int i = 0; i < 100; ++i) strand->Post([&ran] { ++ran; });
  executor.Post([&] {
    ran_before_other = ran;
    other.count_down();
  });
  strand->Post([&done] { done.count_down(); });
  release.count_down();
  other.wait();
  done.wait();
  EXPECT_LT(ran_before_other, 100);
  EXPECT_EQ(ran, 100);
}

TEST(StrandTest, ADelayedTaskRunsOnTheStrand) {
  ThreadPoolExecutor executor({.threads = 4});
  auto strand = Strand::Create(&executor);
  std::latch done(2);
  std::atomic<int> inside = 0;
  const auto task = [&] {
    EXPECT_EQ(inside.fetch_add(1), 0);
    inside.fetch_sub(1);
    done.count_down();
  };
  EXPECT_TRUE(strand->PostAfter(absl::Milliseconds(1), task));
  EXPECT_TRUE(strand->PostAfter(absl::Milliseconds(1), task));
  done.wait();
}

TEST(StrandTest, DispatchRunsOnTheCallersThreadWhileTheStrandIsIdle) {
  ThreadPoolExecutor executor({.threads = 1});
  auto strand = Strand::Create(&executor);
  std::vector<int> order;
  EXPECT_TRUE(strand->Dispatch([&] {
    EXPECT_TRUE(strand->Dispatch([&order] { order.push_back(2); }));
    EXPECT_TRUE(strand->Post([&order] { order.push_back(3); }));
    order.push_back(1);
  }));
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  // And it is idle again.
  EXPECT_TRUE(strand->Dispatch([&order] { order.push_back(4); }));
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
}

TEST(StrandTest, DispatchWaitsBehindWhatRuns) {
  ThreadPoolExecutor executor({.threads = 1});
  auto strand = Strand::Create(&executor);
  std::latch started(1), release(1), done(1);
  std::vector<int> order;
  strand->Post([&] {
    started.count_down();
    release.wait();
    order.push_back(1);
  });
  started.wait();
  EXPECT_TRUE(strand->Dispatch([&] {
    order.push_back(2);
    done.count_down();
  }));
  release.count_down();
  done.wait();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(StrandTest, DispatchOfSeveralThreadsIsOneAtATime) {
  ThreadPoolExecutor executor({.threads = 2});
  auto strand = Strand::Create(&executor);
  constexpr int kThreads = 4, kEach = 200;
  int ran = 0;  // unguarded on purpose: the strand orders access
  std::latch done(kThreads * kEach);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) {
          EXPECT_TRUE(strand->Dispatch([&] {
            ++ran;
            done.count_down();
          }));
        }
      });
    }
  }
  done.wait();
  EXPECT_EQ(ran, kThreads * kEach);
}

TEST(StrandTest, RefusesAfterItsExecutorStopped) {
  ThreadPoolExecutor executor({.threads = 1});
  auto strand = Strand::Create(&executor);
  executor.Stop();
  EXPECT_TRUE(executor.stopped());
  EXPECT_FALSE(strand->Post([] { ADD_FAILURE() << "must not run"; }));
  EXPECT_FALSE(strand->Dispatch([] { ADD_FAILURE() << "must not run"; }));
}

}  // namespace
}  // namespace baton
