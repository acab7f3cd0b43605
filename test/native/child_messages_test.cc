// Goal: what is said between this process and an engine's process arrives as it was, and nothing else is believed. Method: every
// message is written, read and compared; cut, crossed and foreign messages are refused; a wire carries them in pieces.
#include "engines/child/messages.h"

#include <unistd.h>

#include <thread>

#include "engines/child/output_lines.h"
#include "engines/child/wire.h"
#include "support.h"

namespace child_messages_test {
namespace {

using namespace mooncake_kv;
using namespace mooncake_kv::child;

std::span<const uint8_t> payloadOf(std::span<const uint8_t> message) { return message.subspan(sizeof(MessageLength)); }

void addKey(PoolRequest& request, const std::string& text) { std::memcpy(request.addKey(text.size()), text.data(), text.size()); }

TEST(ChildMessages, ARequestArrivesWithItsSegments) {
  const auto first = Memory::createMemfd(4096), second = Memory::createMemfd(8192);
  const auto firstThere = Memory::createMemfd(4096), secondThere = Memory::createMemfd(8192);
  PoolRequest sent, read;
  sent.begin(layout::OPERATION_PUT);
  addKey(sent, "model@tp0@00ff");
  sent.addSegment(*first, 16, 32);
  sent.addSegment(*second, 8000, 192);
  addKey(sent, "");
  addKey(sent, "z");
  sent.addSegment(*second, 0, 8192);

  std::vector<uint8_t> bytes;
  Writer writer(bytes);
  writeRequest(writer, sent);
  Reader reader(payloadOf(writer.finish()));
  readRequest(reader, read, [&](uint64_t number) { return number == first->number() ? firstThere.get() : secondThere.get(); });
  EXPECT_EQ(reader.left(), 0u);
  ASSERT_EQ(read.count(), 3u);
  EXPECT_EQ(read.operation(), layout::OPERATION_PUT);
  EXPECT_EQ(read.key(0), "model@tp0@00ff");
  EXPECT_EQ(read.key(1), "");
  EXPECT_EQ(read.key(2), "z");
  ASSERT_EQ(read.segments(0).size(), 2u);
  EXPECT_EQ(read.segments(0)[0].memory, firstThere.get());
  EXPECT_EQ(read.segments(0)[0].offset, 16u);
  EXPECT_EQ(read.segments(0)[1].memory, secondThere.get());
  EXPECT_EQ(read.segments(0)[1].bytes, 192u);
  EXPECT_TRUE(read.segments(1).empty());
  EXPECT_EQ(read.valueBytes(0), 224u);

  read.setResult(0, 224);
  read.setTier(0, layout::TIER_MEMORY);
  read.setResult(1, code::OBJECT_NOT_FOUND);
  read.setResult(2, code::BUFFER_LARGER);
  Writer back(bytes);
  writeResults(back, code::OK, read);
  Reader results(payloadOf(back.finish()));
  EXPECT_EQ(readResults(results, sent), code::OK);
  EXPECT_EQ(sent.result(0), 224);
  EXPECT_EQ(sent.tier(0), layout::TIER_MEMORY);
  EXPECT_EQ(sent.result(1), code::OBJECT_NOT_FOUND);
  EXPECT_EQ(sent.tier(1), layout::TIER_UNKNOWN);
  EXPECT_EQ(sent.result(2), code::BUFFER_LARGER);
}

TEST(ChildMessages, SegmentsOutsideOfKnownMemoryAreRefused) {
  const auto memory = Memory::createMemfd(4096);
  const auto smaller = Memory::createMemfd(100);
  const auto read = [&](uint64_t offset, uint64_t length, const Memory* there) {
    PoolRequest sent, got;
    sent.begin(layout::OPERATION_GET);
    addKey(sent, "a");
    sent.addSegment(*memory, offset, length);
    std::vector<uint8_t> bytes;
    Writer writer(bytes);
    writeRequest(writer, sent);
    Reader reader(payloadOf(writer.finish()));
    readRequest(reader, got, [&](uint64_t) { return there; });
  };
  EXPECT_NO_THROW(read(50, 50, smaller.get()));
  EXPECT_THROW(read(50, 51, smaller.get()), Malformed);
  EXPECT_THROW(read(101, 0, smaller.get()), Malformed);
  EXPECT_THROW(read(8, UINT64_MAX, smaller.get()), Malformed);
  EXPECT_THROW(read(0, 1, nullptr), Malformed);
}

TEST(ChildMessages, CutMessagesAreRefused) {
  PoolRequest sent, got;
  const auto memory = Memory::createMemfd(4096);
  sent.begin(layout::OPERATION_GET);
  addKey(sent, "some key");
  sent.addSegment(*memory, 0, 7);
  std::vector<uint8_t> bytes;
  Writer writer(bytes);
  writeRequest(writer, sent);
  const auto whole = payloadOf(writer.finish());
  for (size_t length = 0; length < whole.size(); length++) {
    Reader reader(whole.first(length));
    EXPECT_THROW(readRequest(reader, got, [&](uint64_t) { return memory.get(); }), Malformed) << length;
  }
  got.begin(layout::OPERATION_GET);
  Writer results(bytes);
  writeResults(results, code::OK, sent);
  Reader ofOthers(payloadOf(results.finish()));
  EXPECT_THROW(readResults(ofOthers, got), Malformed);
}

TEST(ChildMessages, OptionsErrorsAndCallsArriveWhole) {
  std::vector<uint8_t> bytes;
  Writer writer(bytes);
  MooncakeOptions mooncake;
  mooncake.pythonExecutable = "/usr/bin/python3";
  mooncake.globalSegmentBytes = uint64_t{1} << 40;
  mooncake.protocol = "rdma";
  mooncake.enableOffload = true;
  mooncake.groupSemantics = true;
  mooncake.reportTiers = true;
  mooncake.verify = Verify::require;
  mooncake.checkRemovals = false;
  mooncake.putThreads = 9;
  writeOptions(writer, mooncake);
  writeOptions(writer, LocalOptions{.poolName = "p", .bytesMax = 5, .ioThreads = 3, .verifyChecksums = true});
  writeError(writer, Error("CONFIGURATION", "field", "value", "problem", "remedy"));
  controlReplyFields(writer, ControlReply{.status = -3, .count = -4, .kept = -1, .value = {1, 0, 2}, .keys = {"", "b"}, .text = "said"});
  controlRequestFields(writer, ControlRequest{.operation = ControlOperation::keys, .key = "k", .value = {9}, .limit = 7, .force = true, .keepChecksums = true});
  EXPECT_THROW(writeOptions(writer, ChildOptions{}), std::logic_error);

  Reader reader(payloadOf(writer.finish()));
  const auto readMooncake = std::get<MooncakeOptions>(readOptions(reader));
  EXPECT_EQ(readMooncake.pythonExecutable, "/usr/bin/python3");
  EXPECT_EQ(readMooncake.globalSegmentBytes, uint64_t{1} << 40);
  EXPECT_EQ(readMooncake.protocol, "rdma");
  EXPECT_TRUE(readMooncake.enableOffload);
  EXPECT_TRUE(readMooncake.groupSemantics);
  EXPECT_TRUE(readMooncake.reportTiers);
  EXPECT_EQ(readMooncake.verify, Verify::require);
  EXPECT_FALSE(readMooncake.checkRemovals);
  EXPECT_EQ(readMooncake.putThreads, 9u);
  const auto local = std::get<LocalOptions>(readOptions(reader));
  EXPECT_EQ(local.poolName, "p");
  EXPECT_EQ(local.ioThreads, 3u);
  EXPECT_TRUE(local.verifyChecksums);
  const Error error = readError(reader);
  EXPECT_EQ(error.code, "CONFIGURATION");
  EXPECT_EQ(error.remedy, "remedy");
  ControlReply reply;
  controlReplyFields(reader, reply);
  EXPECT_EQ(reply.status, -3);
  EXPECT_EQ(reply.count, -4);
  EXPECT_EQ(reply.kept, -1);
  EXPECT_EQ(reply.value, (std::vector<uint8_t>{1, 0, 2}));
  EXPECT_EQ(reply.keys, (std::vector<std::string>{"", "b"}));
  EXPECT_EQ(reply.text, "said");
  ControlRequest request;
  controlRequestFields(reader, request);
  EXPECT_EQ(request.operation, ControlOperation::keys);
  EXPECT_EQ(request.limit, 7u);
  EXPECT_TRUE(request.force);
  EXPECT_TRUE(request.keepChecksums);
}

TEST(ChildWire, LargeMessagesAndSeveralAtOnceStayWhole) {
  auto [left, right] = socketPair();
  Wire sender(std::move(left)), receiver(std::move(right));
  const std::vector<uint8_t> large(5 << 20, 7);
  std::thread sending([&] {
    std::vector<uint8_t> bytes;
    for (const std::vector<uint8_t>& value : {std::vector<uint8_t>{1}, large, std::vector<uint8_t>{}, std::vector<uint8_t>{2, 3}}) {
      Writer writer(bytes);
      writer(value);
      EXPECT_EQ(sender.send(writer.finish()), Outcome::done);
    }
  });
  const auto next = [&] {
    std::span<const uint8_t> payload;
    EXPECT_EQ(receiver.receive(payload), Outcome::done);
    Reader reader(payload);
    return reader.take<std::vector<uint8_t>>();
  };
  EXPECT_EQ(next(), std::vector<uint8_t>{1});
  EXPECT_EQ(next(), large);
  EXPECT_TRUE(next().empty());
  EXPECT_EQ(next(), (std::vector<uint8_t>{2, 3}));
  sending.join();
}

TEST(ChildWire, DescriptorsGoBesideTheirMessage) {
  auto [left, right] = socketPair();
  Wire sender(std::move(left)), receiver(std::move(right));
  const auto memory = Memory::createMemfd(4096);
  memory->data()[17] = 42;
  std::vector<uint8_t> bytes;
  Writer writer(bytes);
  writer(uint64_t{4096});
  const int descriptor = memory->fileDescriptor();
  ASSERT_EQ(sender.send(writer.finish(), {&descriptor, 1}), Outcome::done);
  std::span<const uint8_t> payload;
  std::vector<Descriptor> descriptors;
  ASSERT_EQ(receiver.receive(payload, &descriptors), Outcome::done);
  ASSERT_EQ(descriptors.size(), 1u);
  const auto there = Memory::openMemfd(dup(descriptors[0].get()), 4096);
  EXPECT_NE(there->data(), memory->data());
  EXPECT_EQ(there->data()[17], 42);
  there->data()[18] = 43;
  EXPECT_EQ(memory->data()[18], 43);
}

TEST(ChildWire, SilenceAndAnEndAreToldApart) {
  auto [left, right] = socketPair();
  Wire receiver(std::move(right));
  receiver.limit(std::chrono::milliseconds(1));
  std::span<const uint8_t> payload;
  EXPECT_EQ(receiver.receive(payload), Outcome::timedOut);
  // A length that no message has.
  const uint8_t nonsense[] = {0xff, 0xff, 0xff, 0xff, 1};
  ASSERT_EQ(write(left.get(), nonsense, sizeof nonsense), ssize_t{sizeof nonsense});
  EXPECT_EQ(receiver.receive(payload), Outcome::closed);
  auto [other, end] = socketPair();
  Wire ended(std::move(end));
  other = Descriptor();
  { const Descriptor closing(std::move(other)); }
  EXPECT_EQ(ended.receive(payload), Outcome::closed);
}

TEST(ChildOutput, LinesKeepTheirSeverityAndPlace) {
  std::vector<mooncake::LogLine> taken;
  OutputLines lines([&](mooncake::LogLine line) { taken.push_back(std::move(line)); });
  lines.append("I client.cc:12 con");
  lines.append("nected\nE rpc.cc:7\nF20260102 03:04:05.678 99 store.cc:3] the end\nW nothing known\n");
  lines.append("Traceback (most recent call last):\n  File \"x\"\nOops");
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_TRUE(lines.isHolding());
  lines.flush();
  EXPECT_FALSE(lines.isHolding());
  ASSERT_EQ(taken.size(), 4u);
  EXPECT_EQ(taken[0].severity, 0);
  EXPECT_EQ(taken[0].source, "client.cc:12");
  EXPECT_EQ(taken[0].text, "connected");
  EXPECT_EQ(taken[1].severity, 2);
  EXPECT_EQ(taken[1].text, "");
  EXPECT_EQ(taken[2].severity, 3);
  EXPECT_EQ(taken[2].source, "store.cc:3");
  EXPECT_EQ(taken[2].text, "the end");
  EXPECT_EQ(taken[3].source, OutputLines::NAMELESS);
  EXPECT_EQ(taken[3].text, "W nothing known\nTraceback (most recent call last):\n  File \"x\"\nOops");
}

TEST(ChildOutput, EndlessOutputIsCut) {
  std::vector<mooncake::LogLine> taken;
  OutputLines lines([&](mooncake::LogLine line) { taken.push_back(std::move(line)); });
  for (int i = 0; i < 100; i++) lines.append(std::string(1000, 'x'));
  lines.append("\n");
  for (int i = 0; i < 10; i++) lines.append(std::string(1000, 'y') + "\n");
  lines.flush();
  ASSERT_GE(taken.size(), 4u);
  for (const auto& line : taken) EXPECT_LE(line.text.size(), OutputLines::TEXT_BYTES_MAX);
}

}  // namespace
}  // namespace child_messages_test
