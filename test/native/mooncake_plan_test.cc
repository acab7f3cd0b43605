// Goal: a request is cut into calls that never exceed what the store takes, gathered values are the same bytes, and each value is told
// of with its group.
// Method: plans over requests of many shapes, checked call by call against the limits; no interpreter is needed.
#include <numeric>

#include "core/copy.h"
#include "engines/mooncake/call_plan.h"
#include "engines/mooncake/lifecycle_group.h"
#include "engines/mooncake/master_address.h"
#include "support.h"

namespace mooncake_plan_test {
namespace {

using namespace mooncake_kv;
using namespace mooncake_kv::mooncake;

class MooncakePlan : public testing::Test {
 protected:
  /** One value of `segments` segments each `stride` bytes apart. */
  void add(size_t segments, uint64_t bytes) {
    request.addKey(1)[0] = 'k';
    for (size_t index = 0; index < segments; index++) {
      request.addSegment(*memory, at, bytes);
      at += bytes + 64;
    }
  }
  std::vector<PlannedCall> plan() {
    std::vector<PlannedCall> calls;
    for (uint32_t from = 0; from < request.count(); from = calls.back().to) calls.push_back(nextCall(request, from, limits));
    return calls;
  }
  static std::vector<uint32_t> ends(const std::vector<PlannedCall>& calls) {
    std::vector<uint32_t> ends;
    for (const PlannedCall& call : calls) ends.push_back(call.to);
    return ends;
  }

  void SetUp() override { request.begin(layout::OPERATION_PUT); }

  std::shared_ptr<Memory> memory = Memory::createMemfd(64 << 20);
  PoolRequest request;
  CallLimits limits{.keysMax = 100, .bytesMax = 0, .piecesMax = 1000, .stagingBytes = 1 << 20};
  uint64_t at = 0;
};

TEST_F(MooncakePlan, EveryKeyIsInOneCallAndNoLimitIsExceeded) {
  for (int round = 0; round < 50; round++) {
    add(1, 4096);
    add(2, 512 << 10);
    add(64, 1024);
    add(7, 100'000);
  }
  limits.keysMax = 9;
  limits.piecesMax = 11;
  uint32_t next = 0;
  for (const PlannedCall& call : plan()) {
    EXPECT_EQ(call.from, next);
    ASSERT_GT(call.to, call.from);
    EXPECT_LE(call.to - call.from, limits.keysMax);
    uint64_t pieces = 0, bytes = 0;
    for (uint32_t index = call.from; index < call.to; index++) {
      pieces += call.staged ? 1 : request.segments(index).size();
      bytes += request.valueBytes(index);
    }
    EXPECT_LE(pieces, limits.piecesMax);
    if (call.staged) {
      EXPECT_LE(bytes, limits.stagingBytes);
    }
    next = call.to;
  }
  EXPECT_EQ(next, request.count());
}

TEST_F(MooncakePlan, ManySmallSegmentsAreGatheredAndLargeOnesAreNot) {
  add(64, 1024);
  add(64, 1024);
  add(1, 1024);
  add(4, 200'000);
  const std::vector<PlannedCall> calls = plan();
  ASSERT_EQ(ends(calls), (std::vector<uint32_t>{2, 4}));
  EXPECT_TRUE(calls[0].staged);
  EXPECT_FALSE(calls[1].staged);
}

TEST_F(MooncakePlan, MiddlingSegmentsAreGatheredOfSmallValuesOnly) {
  limits.stagingBytes = 16 << 20;
  add(4, 64 << 10);
  add(16, 64 << 10);
  add(16, 16 << 10);
  add(64, 16 << 10);
  add(64, 32 << 10);
  std::vector<bool> staged;
  for (const PlannedCall& call : plan()) staged.insert(staged.end(), call.to - call.from, call.staged);
  EXPECT_EQ(staged, (std::vector<bool>{true, false, true, true, false}));
}

TEST_F(MooncakePlan, NothingIsGatheredWithoutAStagingBuffer) {
  limits.stagingBytes = 0;
  for (int index = 0; index < 40; index++) add(64, 1024);
  // And so 15 values make a call, where 40 did.
  for (const PlannedCall& call : plan()) {
    EXPECT_FALSE(call.staged);
    EXPECT_LE((call.to - call.from) * 64, limits.piecesMax);
  }
}

TEST_F(MooncakePlan, AValueAboveALimitTravelsAlone) {
  limits.piecesMax = 3;
  add(1, 4096);
  add(5, 300'000);
  add(1, 4096);
  EXPECT_EQ(ends(plan()), (std::vector<uint32_t>{1, 2, 3}));
}

TEST_F(MooncakePlan, LargeSegmentsAreCutIntoPiecesAsFarAsTheyFitACall) {
  std::iota(memory->data(), memory->data() + (1 << 20), uint8_t{1});
  limits = {.keysMax = 100, .piecesMax = 20, .putPieceBytes = 1000, .getPieceBytes = 2000};
  const auto sizes = [&](uint32_t from, bool gathered = false) {
    Transfer transfer;
    std::vector<uint8_t> buffer(1 << 20);
    const PlannedCall call = nextCall(request, from, limits);
    gather(request, call, buffer.data());
    fillTransfer(request, call, limits, gathered ? buffer.data() : nullptr, transfer);
    EXPECT_LE(transfer.pieces.size(), limits.piecesMax);
    std::vector<uint64_t> sizes;
    for (const Piece& piece : transfer.pieces) sizes.push_back(piece.bytes);
    // Together they are the segments, byte for byte.
    std::vector<uint8_t> joined, wanted;
    for (const Piece& piece : transfer.pieces) joined.insert(joined.end(), piece.address, piece.address + piece.bytes);
    for (uint32_t key = call.from; key < call.to; key++) {
      for (const PoolSegment& segment : request.segments(key)) {
        wanted.insert(wanted.end(), segment.address(), segment.address() + segment.bytes);
      }
    }
    EXPECT_TRUE(joined == wanted);
    return sizes;
  };
  add(1, 3500);
  add(2, 1000);
  add(1, 18'000);
  // Of a value that does not fit otherwise, pieces are as large as they must be.
  add(1, 40'000);
  add(3, 30'001);
  EXPECT_EQ(ends(plan()), (std::vector<uint32_t>{2, 3, 4, 5}));
  EXPECT_EQ(sizes(0), (std::vector<uint64_t>{1000, 1000, 1000, 500, 1000, 1000}));
  EXPECT_EQ(sizes(2), (std::vector<uint64_t>(18, 1000)));
  EXPECT_EQ(sizes(3).size(), 19u);
  EXPECT_EQ(sizes(4).size(), 18u);
  EXPECT_EQ(sizes(0, true), (std::vector<uint64_t>{1000, 1000, 1000, 500, 1000, 1000}));

  request.begin(layout::OPERATION_GET);
  add(1, 3500);
  EXPECT_EQ(sizes(0), (std::vector<uint64_t>{2000, 1500}));
  // Verbs cut what they send by themselves.
  MooncakeOptions options;
  options.protocol = "rdma";
  EXPECT_EQ(callLimits(options).putPieceBytes, UINT64_MAX);
  options.protocol = "tcp";
  EXPECT_EQ(callLimits(options).putPieceBytes, 256u << 10);
}

TEST_F(MooncakePlan, ReadsKeepToTheOwnersStagingBuffer) {
  limits.bytesMax = 2 * stagedOnDisk(10'000);
  for (int index = 0; index < 5; index++) add(1, 10'000);
  EXPECT_EQ(ends(plan()), (std::vector<uint32_t>{2, 4, 5}));
  EXPECT_EQ(stagedOnDisk(10'000), 3u * 4096 + 8192);
}

TEST_F(MooncakePlan, GatheredValuesAreTheirSegmentsOneAfterTheOther) {
  add(3, 1000);
  add(2, 77);
  std::iota(memory->data(), memory->data() + at, uint8_t{1});
  const PlannedCall call = nextCall(request, 0, limits);
  ASSERT_EQ(call.to, 2u);
  std::vector<uint8_t> buffer(1 << 20);
  gather(request, call, buffer.data());
  Transfer staged, direct;
  fillTransfer(request, call, limits, buffer.data(), staged);
  fillTransfer(request, call, limits, nullptr, direct);
  EXPECT_EQ(staged.pieceEnds, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(direct.pieceEnds, (std::vector<uint32_t>{3, 5}));
  std::vector<uint8_t> joined;
  for (const Piece& piece : direct.pieces) joined.insert(joined.end(), piece.address, piece.address + piece.bytes);
  EXPECT_TRUE(std::equal(joined.begin(), joined.end(), buffer.begin()));
  EXPECT_EQ(staged.pieces[1].address, buffer.data() + 3000);

  const std::vector<uint8_t> before(memory->data(), memory->data() + at);
  std::memset(memory->data(), 0, at);
  scatterValue(request, 0, staged.pieces[0].address);
  scatterValue(request, 1, staged.pieces[1].address);
  for (uint32_t index = 0; index < 2; index++) {
    for (const PoolSegment& segment : request.segments(index)) {
      EXPECT_EQ(std::memcmp(segment.address(), before.data() + segment.offset, segment.bytes), 0);
    }
  }
}

TEST(LifecycleGroup, IsTheKeyWithoutItsRanksAndItsGroup) {
  EXPECT_EQ(lifecycleGroup("m@tp_rank:3@pcp0@dcp1@pp_rank:2@group:1@ab01"), "vllm-mooncake-store:m@ab01");
  EXPECT_EQ(lifecycleGroup("a@tp_rank:9@m@store_tp:4@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ff"), "vllm-mooncake-store:a@tp_rank:9@m@store_tp:4@ff");
  EXPECT_EQ(lifecycleGroup("model@mooncake-kv-identity"), "");
  EXPECT_EQ(lifecycleGroup("m@tp_rank:0"), "");
  EXPECT_EQ(lifecycleGroup(""), "");
}

TEST(MasterAddress, SaysWhyItCannotBeReached) {
  EXPECT_NE(whyUnreachable("127.0.0.1:1", 1000), "");
  EXPECT_NE(whyUnreachable("no-such-host.invalid:50051", 1000), "");
  EXPECT_EQ(whyUnreachable("etcd://127.0.0.1:2379", 1000), "");
}

}  // namespace
}  // namespace mooncake_plan_test
