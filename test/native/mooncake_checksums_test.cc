// Goal: only a put that has stored its value leaves a checksum; a value that does not fit any of its key's is refused, is a miss without
// being asked for, goes when it is leased no more, and is put anew; a value without one is used, or is a miss where one is required; what
// fails in the middle of a put leaves nothing begun. Method: the engine in its host over a fake wheel that keeps keys, but no bytes: what
// a get brings is always the same, so that a block filled with it has the value's checksum.
#include <memory>

#include "engines/mooncake/checksums.h"
#include "engines/mooncake/mooncake_engine.h"
#include "fake_wheel.h"
#include "support.h"

namespace {

using namespace mooncake_kv;
using namespace mooncake_kv::mooncake;
using support::Actor;
using support::FakeWheel;
using support::waitUntil;
using support::World;

/** What the fake wheel writes in a get. */
constexpr uint8_t ARRIVED = 0x11;

class MooncakeChecksums : public testing::TestWithParam<std::vector<uint64_t>> {
 protected:
  void open(Verify verify) {
    MooncakeOptions options = wheel.options();
    options.verify = verify;
    const auto make = [options, parked = std::make_shared<Parked>(), refused = std::make_shared<RefusedKeys>()] {
      return std::make_shared<MooncakeEngine>(options, parked, WHEEL_GIVES_UP_AFTER, refused);
    };
    host = EngineHost::open({.traits = {.lanes = {.exists = 1, .get = 1, .put = 1, .control = 1}, .mayHang = true}, .make = make});
    waitUntil([&] { return host->state() == EngineState::open; });
  }
  void TearDown() override {
    EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
    EXPECT_EQ(wheel.count("misuses"), 0);
    EXPECT_EQ(wheel.count("wrongOffsets"), 0);
  }

  /** The block has the bytes that a get brings, or others. */
  void fillBlock(bool asItArrives) {
    for (const SegmentRule& rule : world.space->segments(0)) std::fill_n(rule.at(0), rule.bytes, asItArrives ? ARRIVED : 0x77);
  }
  int32_t put(bool asItArrives = true) {
    fillBlock(asItArrives);
    return ask(layout::OPERATION_PUT);
  }
  int32_t get() {
    fillBlock(false);
    return ask(layout::OPERATION_GET);
  }
  int32_t exists() { return ask(layout::OPERATION_EXISTS); }
  int32_t ask(int32_t operation) {
    Actor actor(host, world.id);
    const int32_t result = actor.run(operation, {{0, 0}})[0];
    verified = (actor.tier(0, 0) & layout::CHECK_VERIFIED) != 0;
    return result;
  }
  int32_t bytes() const { return static_cast<int32_t>(world.valueBytes); }

  FakeWheel wheel;
  World world{8, GetParam()};
  const std::string key = world.key(0);
  std::shared_ptr<EngineHost> host;
  bool verified = false;
};

TEST_P(MooncakeChecksums, APutLeavesOneAndAGetFindsIt) {
  open(Verify::whenPresent);
  EXPECT_EQ(put(), bytes());
  EXPECT_EQ(wheel.keysLike(checksumMarkOf(key)), 2);
  EXPECT_EQ(get(), bytes());
  EXPECT_TRUE(verified);
}

TEST_P(MooncakeChecksums, NobodyKeepsThemWithoutTheSetting) {
  open(Verify::off);
  EXPECT_EQ(put(), bytes());
  EXPECT_EQ(wheel.count("steps"), 0);
  EXPECT_EQ(get(), bytes());
  EXPECT_FALSE(verified);
}

TEST_P(MooncakeChecksums, APutThatFindsTheKeyTakenLeavesNone) {
  open(Verify::whenPresent);
  wheel.hold(key);
  EXPECT_EQ(put(false), bytes());
  EXPECT_EQ(wheel.keysLike("#xxh3"), 0);
  EXPECT_EQ(get(), bytes());
  EXPECT_FALSE(verified);
}

TEST_P(MooncakeChecksums, APutBesideOneOfAnotherThreadLeavesNone) {
  open(Verify::whenPresent);
  wheel.takeInHand(key);
  EXPECT_EQ(put(), bytes());
  EXPECT_EQ(wheel.keysLike("#xxh3"), 0);
}

TEST_P(MooncakeChecksums, APutWhoseTransferFailsTakesEverythingBack) {
  open(Verify::whenPresent);
  wheel.plan("fail");
  EXPECT_EQ(put(), code::ENGINE_ERROR);
  EXPECT_EQ(wheel.keysLike(key), 0);
  EXPECT_EQ(put(), bytes()) << "nothing of it is in hand";
  EXPECT_EQ(wheel.keysLike(key), 3);
}

TEST_P(MooncakeChecksums, AChangedValueIsRefusedAndAMissUntilItIsPutAnew) {
  open(Verify::whenPresent);
  EXPECT_EQ(put(false), bytes());
  wheel.lease(key);
  EXPECT_EQ(get(), code::CHECKSUM_MISMATCH);
  EXPECT_EQ(exists(), 0);
  EXPECT_EQ(wheel.timesAsked(key), 0) << "that would lease it anew";
  EXPECT_EQ(put(), code::OBJECT_HAS_LEASE);
  wheel.endLeases();
  EXPECT_EQ(put(), bytes());
  EXPECT_EQ(exists(), 1);
  EXPECT_EQ(get(), bytes());
  EXPECT_TRUE(verified);
}

TEST_P(MooncakeChecksums, AChangedValueGoesWithoutAPut) {
  open(Verify::whenPresent);
  EXPECT_EQ(put(false), bytes());
  EXPECT_EQ(get(), code::CHECKSUM_MISMATCH);
  waitUntil([&] { return !wheel.isStored(key) && !wheel.isStored(checksumMarkOf(key)); });
}

TEST_P(MooncakeChecksums, WhoHasNotTheClaimRemovesNothing) {
  open(Verify::whenPresent);
  EXPECT_EQ(put(false), bytes());
  // Of this window and the next, should it begin now.
  const auto window = std::chrono::system_clock::now().time_since_epoch() / RefusedKeys::KEPT_CLAIMED;
  for (const auto each : {window, window + 1}) wheel.hold(checksumMarkOf(key) + "!" + std::to_string(each));
  EXPECT_EQ(get(), code::CHECKSUM_MISMATCH);
  EXPECT_EQ(exists(), 0);
  EXPECT_EQ(put(), code::OBJECT_HAS_LEASE);
  EXPECT_TRUE(wheel.isStored(key));
  // Whoever has it has removed the value.
  wheel.drop(key);
  EXPECT_EQ(put(), bytes());
  EXPECT_EQ(exists(), 1);
}

TEST_P(MooncakeChecksums, ValuesOfTwoMembersAreGoodOneAfterTheOther) {
  open(Verify::whenPresent);
  EXPECT_EQ(put(false), bytes());
  wheel.drop(key);
  EXPECT_EQ(put(true), bytes());
  EXPECT_EQ(wheel.keysLike(checksumMarkOf(key)), 3);
  EXPECT_EQ(get(), bytes());
  EXPECT_TRUE(verified);
}

TEST_P(MooncakeChecksums, AValueWithoutOneIsAMissWhereOneIsRequired) {
  open(Verify::require);
  wheel.hold(key);
  EXPECT_EQ(exists(), layout::EXISTS_UNCHECKED);
  EXPECT_EQ(get(), code::OBJECT_NOT_FOUND);
  wheel.drop(key);
  EXPECT_EQ(exists(), 0);
  EXPECT_EQ(put(), bytes());
  EXPECT_EQ(exists(), 1);
  EXPECT_EQ(get(), bytes());
}

INSTANTIATE_TEST_SUITE_P(Values, MooncakeChecksums,
                         testing::Values(std::vector<uint64_t>{65'536}, std::vector<uint64_t>{4096, 4096, 4096}, std::vector<uint64_t>{700'001, 5}));

}  // namespace
